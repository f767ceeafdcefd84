"""`python -m fedatlas`."""

from fedatlas.cli import main

main()
