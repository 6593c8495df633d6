"""The test kit of kcm-host: real servers, their audit log, the reference, and a proxy of faults."""
