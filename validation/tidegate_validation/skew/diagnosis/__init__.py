"""Why a numeric column shifted: the constant factor or offset that explains it, with the units that were mixed up."""
