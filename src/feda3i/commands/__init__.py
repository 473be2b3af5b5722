"""Commands, one module each; heavy libraries are imported when a command runs."""
