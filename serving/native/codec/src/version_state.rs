//! The lifecycle state of a version, as clients may ask for it.

use crate::status::Status;

/// Where one version stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionState {
    /// Its number.
    pub version: i64,
    /// `ModelVersionStatus.State`: 10 start, 20 loading, 30 available, 40 unloading, 50 end.
    pub state: u64,
    /// Why it ended, if it was for an error.
    pub status: Status,
}

impl VersionState {
    /// The state's name in `ModelVersionStatus.State`.
    pub fn name(&self) -> &'static str {
        match self.state {
            10 => "START",
            20 => "LOADING",
            30 => "AVAILABLE",
            40 => "UNLOADING",
            50 => "END",
            _ => "UNKNOWN",
        }
    }
}
