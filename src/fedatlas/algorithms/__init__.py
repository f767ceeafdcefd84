"""The methods, one file each; see `fedatlas.federations.algorithm` for what a file must define."""
