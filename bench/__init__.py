"""Measures kcm-host against the reference kube-controller-manager on a real API server."""
