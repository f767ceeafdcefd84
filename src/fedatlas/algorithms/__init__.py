"""The methods, one file each; see `fedatlas.algorithm` for what a file must define."""
