"""Who talks to whom: one folder per kind of federation."""
