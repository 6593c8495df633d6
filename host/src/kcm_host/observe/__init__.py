"""What the host tells about itself: log lines, metrics, pages, spans, and a stalled loop."""
