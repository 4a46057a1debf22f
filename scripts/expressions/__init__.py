"""Templates and expressions: values, sandbox, evaluation and static analysis."""
