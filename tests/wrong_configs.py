"""Config files that are YAML but no valid settings: the text and the start of the one error."""

RUNS = "controllers: {ttl: {}}\n"

WRONG = {
    "unknown key": ("htp: 1", "2:1: htp: unknown key 'htp'; did you mean 'http'?"),
    "unknown key that is empty": ("htp:", "2:1: htp: unknown key 'htp'; did you mean 'http'?"),
    "unknown key, other case": (
        "kubeConfig: x",
        "2:1: kubeConfig: unknown key 'kubeConfig'; did you mean 'kubeconfig'?",
    ),
    "python's spelling of a key": (
        "start_timeout: 5s",
        "2:1: start_timeout: unknown key 'start_timeout'; did you mean 'startTimeout'?",
    ),
    "unknown key inside": (
        "telemetry: {traces: {sampelRatio: 1}}",
        (
            "2:22: telemetry.traces.sampelRatio: unknown key 'sampelRatio'; "
            "did you mean 'sampleRatio'?"
        ),
    ),
    "unknown key like nothing": (
        "log: {xyz: 1}",
        "2:7: log.xyz: unknown key 'xyz'; known here: format, level",
    ),
    "key of pydantic-settings": (
        "_env_file: x",
        "2:1: _env_file: unknown key '_env_file'; known here: ",
    ),
    "choice": (
        "log: {level: inof}",
        (
            "2:14: log.level: must be 'debug', 'info', 'warning' or 'error', found 'inof'; "
            "did you mean 'info'?"
        ),
    ),
    "section is a value": ("log: debug", "2:6: log: must be a mapping, found 'debug'"),
    "text is a number": (
        "kubeconfig: 12",
        "2:13: kubeconfig: must be text, found 12; put it in quotes",
    ),
    "empty path": ("kubeconfig: ''", "2:13: kubeconfig: an empty path names no file; write a path"),
    "number without unit": (
        "startTimeout: 10",
        "2:15: startTimeout: duration '10' has no unit; write for example '10s' or '10m'",
    ),
    "negative duration": (
        "shutdownTimeout: -5s",
        "2:18: shutdownTimeout: must be at least '0s', found '-5s'",
    ),
    "base 60 is no number": (
        "startTimeout: 1:30",
        "2:15: startTimeout: '1:30' is not a duration; write numbers",
    ),
    "above the range": (
        "telemetry: {traces: {sampleRatio: 1.5}}",
        "2:35: telemetry.traces.sampleRatio: must be at most 1.0, found 1.5",
    ),
    "yes is no truth": (
        "leaderElection: {enabled: no}",
        "2:27: leaderElection.enabled: must be true or false, found 'no'",
    ),
    "no port": ("http: {bind: localhost}", "2:14: http.bind: 'localhost' has no port; write for"),
    "no host": (
        "http: {bind: ':80'}",
        "2:14: http.bind: ':80' names no host; write '0.0.0.0:80' if every interface is meant",
    ),
    "port too high": ("http: {bind: 'a:65536'}", "2:14: http.bind: '65536' is no port; write"),
    "port is a name": ("http: {bind: 'a:http'}", "2:14: http.bind: 'http' is no port; write"),
    "IPv6 without brackets": ("http: {bind: '::1:80'}", "2:14: http.bind: '::1:80' is no address"),
    "brackets without IPv6": ("http: {bind: '[a]:80'}", "2:14: http.bind: '[a]:80' is no address"),
    "brackets without IPv6, with colons": (
        "http: {bind: '[1:2:3]:80'}",
        "2:14: http.bind: '[1:2:3]:80' is no address",
    ),
    "URL in place of an address": (
        "http: {bind: 'http://a:80'}",
        "2:14: http.bind: 'http://a:80' is no address",
    ),
    "no URL": (
        "telemetry: {traces: {endpoint: 'localhost:4318'}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write",
    ),
    "URL with a bad port": (
        "telemetry: {traces: {endpoint: 'http://a:b'}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write",
    ),
    "leader election": (
        "leaderElection:\n  enabled: true",
        (
            "3:12: leaderElection.enabled: leader election is not built yet; "
            "run one replica and set 'leaderElection.enabled: false'"
        ),
    ),
    "port alone": (
        "http: {bind: 10270}",
        "2:14: http.bind: '10270' is a port without a host; write '127.0.0.1:10270'",
    ),
    "quoted port alone": (
        "http: {bind: '80'}",
        "2:14: http.bind: '80' is a port without a host; write '127.0.0.1:80'",
    ),
    "bind is a list": ("http: {bind: []}", "2:14: http.bind: must be text, found a list"),
    "number too high for a port": (
        "http: {bind: 99999}",
        "2:14: http.bind: '99999' has no port; write for example '127.0.0.1:10270'",
    ),
    "port with many zeros": (
        "http: {bind: 'a:0000000080'}",
        "2:14: http.bind: '0000000080' is no port; write a number from 0 to 65535",
    ),
    "endpoint is a port": (
        "telemetry: {traces: {endpoint: 4318}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write for example",
    ),
    "endpoint with a blank": (
        "telemetry: {traces: {endpoint: 'http://a:1/ b'}}",
        "2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write for example",
    ),
    "a year to start": (
        "startTimeout: 8760h",
        "2:15: startTimeout: must be at most '24h', found '8760h'",
    ),
    "a year to stop": (
        "shutdownTimeout: 24h1us",
        "2:18: shutdownTimeout: must be at most '24h', found '24h1us'",
    ),
    "key twice": ("log: {}\nlog: {}", "3:1: key 'log' stands here again, first at line 2; remove"),
}

WRONG_CONTROLLERS = {
    "no key": ("http: {}", "1:1: controllers: no controller is named, so nothing would run; write"),
    "empty": ("controllers: {}", "1:14: controllers: no controller is named, so nothing"),
    "null": ("log: {}\ncontrollers:", "2:1: controllers: no controller is named, so nothing"),
    "unknown key of one that is empty": (
        "controllers: {x: {wrokers: }}",
        "1:19: controllers.x.wrokers: unknown key 'wrokers'; did you mean 'workers'?",
    ),
    "list": ("controllers: [ttl]", "1:14: controllers: must be a mapping, found a list"),
    "number": ("controllers: {x: 5}", "1:18: controllers.x: must be a mapping, found 5"),
    "no workers": (
        "controllers: {x: {workers: 0}}",
        "1:28: controllers.x.workers: must be at least 1, found 0",
    ),
    "a billion workers": (
        "controllers: {x: {workers: 1000000000}}",
        "1:28: controllers.x.workers: must be at most 1000, found 1000000000",
    ),
    "a burst of four thousand digits": (
        f"controllers: {{x: {{qps: 1, burst: {'9' * 4000}}}}}",
        "1:34: controllers.x.burst: must be at most 1000000, found 999",
    ),
    "more writes than a machine can send": (
        "controllers: {x: {qps: 1.0e+300}}",
        "1:24: controllers.x.qps: must be at most 1000000.0, found 1e+300",
    ),
    "fraction of a worker": (
        "controllers: {x: {workers: 3.0}}",
        "1:28: controllers.x.workers: must be a whole number, found 3.0",
    ),
    "two names": (
        "controllers: {ttl: {}, ttl-controller: {}}",
        "1:24: controllers: 'ttl-controller' is the controller 'ttl' of config.yaml:1 by another",
    ),
    "quoted number": (
        "controllers: {x: {workers: '3'}}",
        "1:28: controllers.x.workers: must be a whole number, found '3'; leave the quotes out",
    ),
    "true is no number": (
        "controllers: {x: {qps: true}}",
        "1:24: controllers.x.qps: must be a number, found true",
    ),
    "infinite": (
        "controllers: {x: {qps: .inf}}",
        "1:24: controllers.x.qps: must be a finite number, found inf",
    ),
    "no requests": (
        "controllers: {x: {qps: 0}}",
        "1:24: controllers.x.qps: must be more than 0.0, found 0",
    ),
    "burst alone": (
        "controllers: {x: {burst: 3}}",
        (
            "1:26: controllers.x.burst: 'burst' does nothing without 'qps'; "
            "set 'qps' too, or remove 'burst'"
        ),
    ),
    "settings are a list": (
        "controllers: {x: {settings: []}}",
        "1:29: controllers.x.settings: must be a mapping, found a list",
    ),
    "name with a dot": (
        "controllers: {a.b: 5}",
        "1:20: controllers.a\\.b: must be a mapping, found 5",
    ),
}

#: What no JSON schema can tell, so that only the loader refuses it.
BEYOND_A_SCHEMA = {
    "brackets without IPv6, with colons",
    "a year to start",
    "a year to stop",
    "key twice",
    "fraction of a worker",
    "two names",
}
