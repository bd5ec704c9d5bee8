"""One module a method, grouped by what the method is for."""
