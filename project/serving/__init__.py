"""A small server for an exported model: a page to try it, and JSON for programs. Without torch."""
