"""`kcm-host plugins`: the installed plugins and their state."""

import click
from click.shell_completion import CompletionItem

from kcm_host.cli.installed import PluginInfo, controller_names, installed, installed_names
from kcm_host.cli.options import output_option
from kcm_host.cli.output import BAD_CONFIG, fail, show_facts, show_json, show_table
from kcm_host.config import model_paths
from kcm_host.config.errors import did_you_mean


@click.group()
def plugins() -> None:
    """List installed plugins or show one."""


@plugins.command("list")
@output_option
def list_plugins(output: str) -> None:
    """
    List what is installed and whether it would run.

    Installed is not enabled: a plugin runs when the config file names it. State "quarantined"
    means broken; "kcm-host plugins info NAME" shows why.
    """
    records = [_record(info) for info in installed()]
    if output == "json":
        show_json(records)
    elif records:
        show_table(records, ("name", "role", "state", "version", "summary"))
    else:
        click.echo("no plugin is installed; try: pip install kcm-host-ttl", err=True)


def _names(context: click.Context, option: click.Parameter, typed: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in installed_names() if name.startswith(typed)]


@plugins.command("info")
@click.argument("name", shell_complete=_names)
@output_option
def info(name: str, output: str) -> None:
    """
    Show what is known of one plugin.

    That is where it comes from, its hooks and settings, and, if it is broken, why. NAME is what
    "kcm-host plugins list" shows; names of kube-controller-manager, such as ttl-controller, will
    do too.
    """
    plain = controller_names().name_of(name)
    found = [info for info in installed() if info.name == plain]
    if not found:
        advice = did_you_mean(name, installed_names())
        remedy = advice or "see what 'kcm-host plugins list' shows"
        fail(f"no installed plugin is called '{name}'; {remedy}", BAD_CONFIG)
    # More than one where several distributions have a plugin of this name, which then does not run.
    for number, one in enumerate(found):
        if output == "json":
            show_json(_record(one))
        else:
            click.echo("" if number else None, nl=bool(number))
            show_facts(_facts(one))


def _record(info: PluginInfo) -> dict[str, object]:
    broken = info.problem
    return {
        "name": info.name,
        "role": info.role,
        "state": info.state,
        "distribution": info.distribution,
        "version": info.version,
        "summary": info.summary,
        "entryPoint": info.value,
        "aliases": list(info.aliases),
        "hooks": list(info.hooks),
        "settings": list(model_paths.keys(info.settings_model)) if info.settings_model else [],
        "problem": {"stage": broken.stage, "reason": broken.reason, "remedy": broken.remedy}
        if broken
        else None,
    }


def _facts(info: PluginInfo) -> dict[str, object]:
    record = _record(info)
    del record["problem"]
    record["entry point"] = record.pop("entryPoint")
    record["aliases"] = record.pop("aliases") or "none"
    record["hooks"] = record.pop("hooks")
    record["settings"] = record.pop("settings") or "none"
    if info.problem:
        record["problem"] = f"at stage '{info.problem.stage}': {info.problem.reason}"
        record["remedy"] = info.problem.remedy
    return record
