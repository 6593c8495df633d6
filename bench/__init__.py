"""Measures kcm-host against the reference kube-controller-manager and kopf on a real API server."""
