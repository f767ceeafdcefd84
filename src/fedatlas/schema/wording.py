"""What is wrong with a value, in plain words for each kind of error that pydantic finds."""

from collections.abc import Mapping
from typing import Any

# Kind of error → words; in braces what pydantic knows of it.
_WORDS = {
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "dict_type": "must be a mapping of keys to values",
    "enum": "must be {expected}",
    "finite_number": "must be a finite number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be greater than or equal to {ge}",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "is_instance_of": "must be of another kind",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be less than or equal to {le}",
    "list_type": "must be a list, such as [1, 2]",
    "literal_error": "must be {expected}",
    "mapping_type": "must be a mapping of keys to values",
    "model_attributes_type": "must be a mapping of keys to values",
    "model_type": "must be a mapping of keys to values",
    "none_required": "must be left out",
    "path_type": "must be a path",
    "set_type": "must be a list, such as [1, 2]",
    "string_pattern_mismatch": "must have the form {pattern}",
    "string_too_long": "must have at most {max_length} letters",
    "string_too_short": "must have at least {min_length} letters",
    "string_type": "must be text; write it in quotes",
    "too_long": "must hold at most {max_length} values, not {actual_length}",
    "too_short": "must hold {min_length} or more values, not {actual_length}",
    "tuple_type": "must be a list, such as [1, 2]",
    "url_parsing": "must be an address, such as https://example.org/file",
    "url_type": "must be an address, such as https://example.org/file",
}


def in_words(item: Mapping[str, Any]) -> str:
    """One item of a ValidationError's `errors()`; our own messages stay as they are."""
    kind = item["type"]
    if kind in ("value_error", "assertion_error"):
        message: str = item["msg"]
        return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    words = _WORDS.get(kind, f"cannot be used here ({kind.replace('_', ' ')})")
    return words.format(**item.get("ctx", {}))
