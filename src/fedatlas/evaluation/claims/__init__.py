"""Kinds of claims, a module each: what experiment files state of it, and its judge beside it.

A module holds one subclass of `fedatlas.schema.claims.ClaimTest`, which `kind` finds by the
module's name. Plans import these modules: they import xarray and scipy for type checkers only.
"""
