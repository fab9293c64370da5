"""Whether a canary's shadowed answers are as good as those of the version that serves, decided as soon as that is sure.

The canary step hands in counts from the inference log; promotion or refusal comes out. Importing this does no work.
"""
