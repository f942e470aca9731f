"""A study's life: checked, opened, resumed, reproduced, and its winner."""
