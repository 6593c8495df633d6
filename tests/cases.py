"""Tables of tests: a text, and what is said of it on the line below."""


def cases(table: str) -> dict[str, str]:
    """
    Return what stands behind `-> ` by the text above it.

    What is said goes on in lines that begin with three blanks.
    """
    said: dict[str, str] = {}
    text: list[str] = []
    last = ""
    for line in table.strip("\n").split("\n"):
        if line.startswith("-> "):
            last, text = "\n".join(text), []
            said[last] = line.removeprefix("-> ")
        elif line.startswith("   ") and not text:
            said[last] += f" {line.strip()}"
        else:
            text.append(line)
    return said
