"""From traces to selections, tables and verdicts."""
