"""Config files that are YAML but no valid settings, with the beginning of the one error."""

from cases import cases

RUNS = "controllers: {ttl: {}}\n"

#: What stands below `RUNS`.
WRONG = cases("""
htp: 1
-> 2:1: htp: unknown key 'htp'; did you mean 'http'?
htp:
-> 2:1: htp: unknown key 'htp'; did you mean 'http'?
kubeConfig: x
-> 2:1: kubeConfig: unknown key 'kubeConfig'; did you mean 'kubeconfig'?
start_timeout: 5s
-> 2:1: start_timeout: unknown key 'start_timeout'; did you mean 'startTimeout'?
telemetry: {traces: {sampelRatio: 1}}
-> 2:22: telemetry.traces.sampelRatio: unknown key 'sampelRatio'; did you mean 'sampleRatio'?
log: {xyz: 1}
-> 2:7: log.xyz: unknown key 'xyz'; known here: format, level
_env_file: x
-> 2:1: _env_file: unknown key '_env_file'; known here:
log: {level: inof}
-> 2:14: log.level: must be 'debug', 'info', 'warning' or 'error', found 'inof'; did you mean
   'info'?
log: debug
-> 2:6: log: must be a mapping, found 'debug'
kubeconfig: 12
-> 2:13: kubeconfig: must be text, found 12; put it in quotes
kubeconfig: ''
-> 2:13: kubeconfig: an empty path names no file; write a path
startTimeout: 10
-> 2:15: startTimeout: duration '10' has no unit; write for example '10s' or '10m'
shutdownTimeout: -5s
-> 2:18: shutdownTimeout: must be at least '0s', found '-5s'
startTimeout: 1:30
-> 2:15: startTimeout: '1:30' is not a duration; write numbers
telemetry: {traces: {sampleRatio: 1.5}}
-> 2:35: telemetry.traces.sampleRatio: must be at most 1.0, found 1.5
leaderElection: {enabled: no}
-> 2:27: leaderElection.enabled: must be true or false, found 'no'
http: {bind: localhost}
-> 2:14: http.bind: 'localhost' has no port; write for
http: {bind: ':80'}
-> 2:14: http.bind: ':80' names no host; write '0.0.0.0:80' if every interface is meant
http: {bind: 'a:65536'}
-> 2:14: http.bind: '65536' is no port; write
http: {bind: 'a:http'}
-> 2:14: http.bind: 'http' is no port; write
http: {bind: '::1:80'}
-> 2:14: http.bind: '::1:80' is no address
http: {bind: '[a]:80'}
-> 2:14: http.bind: '[a]:80' is no address
http: {bind: '[1:2:3]:80'}
-> 2:14: http.bind: '[1:2:3]:80' is no address
http: {bind: 'http://a:80'}
-> 2:14: http.bind: 'http://a:80' is no address
telemetry: {traces: {endpoint: 'localhost:4318'}}
-> 2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write
telemetry: {traces: {endpoint: 'http://a:b'}}
-> 2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write
leaderElection:
  enabled: true
-> 3:12: leaderElection.enabled: leader election is not built yet; run one replica and set
   'leaderElection.enabled: false'
http: {bind: 10270}
-> 2:14: http.bind: '10270' is a port without a host; write '127.0.0.1:10270'
http: {bind: '80'}
-> 2:14: http.bind: '80' is a port without a host; write '127.0.0.1:80'
http: {bind: []}
-> 2:14: http.bind: must be text, found a list
http: {bind: 99999}
-> 2:14: http.bind: '99999' has no port; write for example '127.0.0.1:10270'
http: {bind: 'a:0000000080'}
-> 2:14: http.bind: '0000000080' is no port; write a number from 0 to 65535
telemetry: {traces: {endpoint: 4318}}
-> 2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write for example
telemetry: {traces: {endpoint: 'http://a:1/ b'}}
-> 2:32: telemetry.traces.endpoint: this is no URL of an HTTP server; write for example
startTimeout: 8760h
-> 2:15: startTimeout: must be at most '24h', found '8760h'
shutdownTimeout: 24h1us
-> 2:18: shutdownTimeout: must be at most '24h', found '24h1us'
log: {}
log: {}
-> 3:1: key 'log' stands here again, first at line 2; remove
""")

WRONG_CONTROLLERS = cases("""
http: {}
-> 1:1: controllers: no controller is named, so nothing would run; write
controllers: {}
-> 1:14: controllers: no controller is named, so nothing
log: {}
controllers:
-> 2:1: controllers: no controller is named, so nothing
controllers: {x: {wrokers: }}
-> 1:19: controllers.x.wrokers: unknown key 'wrokers'; did you mean 'workers'?
controllers: [ttl]
-> 1:14: controllers: must be a mapping, found a list
controllers: {x: 5}
-> 1:18: controllers.x: must be a mapping, found 5
controllers: {x: {workers: 0}}
-> 1:28: controllers.x.workers: must be at least 1, found 0
controllers: {x: {workers: 1000000000}}
-> 1:28: controllers.x.workers: must be at most 1000, found 1000000000
controllers: {x: {qps: 1.0e+300}}
-> 1:24: controllers.x.qps: must be at most 1000000.0, found 1e+300
controllers: {x: {workers: 3.0}}
-> 1:28: controllers.x.workers: must be a whole number, found 3.0
controllers: {ttl: {}, ttl-controller: {}}
-> 1:24: controllers: 'ttl-controller' is the controller 'ttl' of config.yaml:1 by another
controllers: {x: {workers: '3'}}
-> 1:28: controllers.x.workers: must be a whole number, found '3'; leave the quotes out
controllers: {x: {qps: true}}
-> 1:24: controllers.x.qps: must be a number, found true
controllers: {x: {qps: .inf}}
-> 1:24: controllers.x.qps: must be a finite number, found inf
controllers: {x: {qps: 0}}
-> 1:24: controllers.x.qps: must be more than 0.0, found 0
controllers: {x: {burst: 3}}
-> 1:26: controllers.x.burst: 'burst' does nothing without 'qps'; set 'qps' too, or remove 'burst'
controllers: {x: {settings: []}}
-> 1:29: controllers.x.settings: must be a mapping, found a list
controllers: {a.b: 5}
-> 1:20: controllers.a\\.b: must be a mapping, found 5
""")
MANY_DIGITS = f"controllers: {{x: {{qps: 1, burst: {'9' * 4000}}}}}"
WRONG_CONTROLLERS[MANY_DIGITS] = "1:34: controllers.x.burst: must be at most 1000000, found 999"

#: What no JSON schema can tell, so that only the loader refuses it.
BEYOND_A_SCHEMA = {
    "http: {bind: '[1:2:3]:80'}",
    "startTimeout: 8760h",
    "shutdownTimeout: 24h1us",
    "log: {}\nlog: {}",
    "controllers: {x: {workers: 3.0}}",
    "controllers: {ttl: {}, ttl-controller: {}}",
}
