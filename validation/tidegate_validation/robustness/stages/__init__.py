"""The stages of an examination: each asks the version through the examination, and reports findings."""
