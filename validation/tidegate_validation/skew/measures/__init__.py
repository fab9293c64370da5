"""How far counts of a window are from those of training, and what chance and time do to them: numbers, no judgement."""
