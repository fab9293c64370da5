"""Whether a version may serve: verdicts, keys, overrides of verdicts, and what was admitted.

Gates sign verdicts, people sign overrides, and engines ask before they load; `tidegate verify` asks the same offline.
"""

from tidegate_serving.admission.admission import Admission, AdmitUnverified, LiveAdmission, Standing, VerdictAdmission
from tidegate_serving.admission.envelope import Envelope
from tidegate_serving.admission.key_ring import KeyRing, Revocation, RevokedVersion, Role, TrustedKey
from tidegate_serving.admission.keys import (
    Signer,
    key_id,
    load_private_key,
    load_public_key,
    make_keys,
    read_private_key,
)
from tidegate_serving.admission.override import (
    Override,
    OverrideRule,
    denied_outcome,
    open_override,
    read_override_rules,
    refusal,
    write_override,
)
from tidegate_serving.admission.records import AdmissionRecord, AdmissionRecords, OverrideRecord
from tidegate_serving.admission.rules import (
    SignedOverride,
    SignedVerdict,
    check_date,
    check_not_revoked,
    check_subject,
    overrides_for,
    trusted_verdict,
)
from tidegate_serving.admission.trust import key_of, read_ring, read_trust, ring_file, write_ring
from tidegate_serving.admission.vault import VaultKey
from tidegate_serving.admission.verdict import (
    Finding,
    GateResult,
    Outcome,
    Verdict,
    claimed_verdict,
    open_verdict,
    verdict_schema,
    write_verdict,
)
from tidegate_serving.admission.watch import AdmissionWatch, OverrideGauge

__all__ = [
    "Admission",
    "AdmissionRecord",
    "AdmissionRecords",
    "AdmissionWatch",
    "AdmitUnverified",
    "Envelope",
    "Finding",
    "GateResult",
    "KeyRing",
    "LiveAdmission",
    "Outcome",
    "Override",
    "OverrideGauge",
    "OverrideRecord",
    "OverrideRule",
    "Revocation",
    "RevokedVersion",
    "Role",
    "SignedOverride",
    "SignedVerdict",
    "Signer",
    "Standing",
    "TrustedKey",
    "VaultKey",
    "Verdict",
    "VerdictAdmission",
    "check_date",
    "check_not_revoked",
    "check_subject",
    "claimed_verdict",
    "denied_outcome",
    "key_id",
    "key_of",
    "load_private_key",
    "load_public_key",
    "make_keys",
    "open_override",
    "open_verdict",
    "overrides_for",
    "read_override_rules",
    "read_private_key",
    "read_ring",
    "read_trust",
    "refusal",
    "ring_file",
    "trusted_verdict",
    "verdict_schema",
    "write_override",
    "write_ring",
    "write_verdict",
]
