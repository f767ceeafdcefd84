"""Kinds of figures of experiments: a module each, with its keys and its drawing.

Plans read the keys: nothing that takes long is imported before something is drawn.
"""
