//! Which model, version and signature a request is for, in any protocol.

/// Which version a client asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionChoice<'a> {
    /// `stable` if that label exists, else the newest.
    #[default]
    Any,
    /// This one.
    Version(i64),
    /// Whatever the label names.
    Label(&'a str),
}

/// A model, its version and its signature, as TensorFlow Serving's `ModelSpec` names them.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelSpec<'a> {
    /// The model's name.
    pub name: &'a str,
    /// Which of its versions.
    pub choice: VersionChoice<'a>,
    /// Empty for `serving_default`.
    pub signature_name: &'a str,
}

/// The signature that is used when a request names none.
pub const DEFAULT_SIGNATURE: &str = "serving_default";

impl<'a> ModelSpec<'a> {
    /// The signature's name with the default filled in.
    pub fn signature(&self) -> &'a str {
        if self.signature_name.is_empty() { DEFAULT_SIGNATURE } else { self.signature_name }
    }
}
