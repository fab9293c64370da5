"""The example on real data: flights that left New York in 2013, models of their delay, planted mistakes, the demo.

Nothing imports it; the `tidegate` command finds `tidegate demo` through an entry point.
"""
