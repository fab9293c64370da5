//! The answer to a `ModelInfer` request, before it has the form of a protocol.

/// How an output is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputForm {
    /// As values: `contents` of a message, `data` of JSON.
    #[default]
    Values,
    /// As bytes: `raw_output_contents` of a message, binary data behind JSON.
    Bytes,
}

/// What a client gets: what it called its request, and these outputs in this order, by their places in the signature.
#[derive(Debug)]
pub struct InferAnswer {
    /// Empty where the client gave none.
    pub id: Box<str>,
    /// Each with its form.
    pub outputs: Box<[(usize, OutputForm)]>,
}
