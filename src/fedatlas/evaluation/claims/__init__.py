"""Kinds of claims, one module each: what experiment files state, and how it is judged.

A module holds one subclass of `fedatlas.schema.claims.ClaimTest`; `kind` is the module's name.
Plans import these modules, so they load neither xarray nor scipy.
"""
