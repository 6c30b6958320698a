"""Pure rules of conditions: parsing, comparison and evaluation."""
