"""What runs inside a framework's environment: standard library and NumPy, Python >= 3.7."""
