//! Which model a call names: spliced out of its message by the numbers of the fields that lead there, without decoding the
//! message. As ModelMesh's ProtoSplicer does.

use tidegate_codec::protobuf::wire::Reader;
use tidegate_codec::status::Status;
use tidegate_plane::endpoints::grpc::infer_methods::{self, Method};
use tidegate_plane::endpoints::grpc::methods;

/// How a method's messages name a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The numbers of the fields that lead to the name.
    pub path: &'static [u32],
    /// Whether the method needs the model to be loaded, and does not only ask how it is.
    pub needs: bool,
}

/// The name stands in the message itself.
const OWN: &[u32] = &[1];
/// In its `ModelSpec`.
const SPEC: &[u32] = &[1, 1];
/// In that of its tasks.
const TASKS: &[u32] = &[1, 1, 1];

/// How the messages of a method name a model; none for a method that is not about one.
pub fn named_by(path: &str) -> Option<Named> {
    let (path, needs) = match path {
        methods::PREDICT | methods::CLASSIFY | methods::REGRESS | methods::SESSION_RUN | methods::METADATA => {
            (SPEC, true)
        }
        methods::MULTI_INFERENCE => (TASKS, true),
        methods::MODEL_STATUS => (SPEC, false),
        _ => match infer_methods::method(path)? {
            Method::ModelInfer | Method::ModelStreamInfer | Method::ModelMetadata | Method::ModelConfig => (OWN, true),
            Method::ModelReady | Method::ModelStatistics => (OWN, false),
            _ => return None,
        },
    };
    Some(Named { path, needs })
}

/// The text at the end of a path of fields; where a field is repeated, the last one that has it, as protocol buffers are read.
/// None where there is none. The error says what of the message on the way there is no protocol buffer.
pub fn splice<'a>(message: &'a [u8], path: &[u32]) -> Result<Option<&'a str>, Status> {
    const MESSAGE: &str = "the request";
    let Some((number, rest)) = path.split_first() else { return Ok(None) };
    let (mut found, mut reader) = (None, Reader::new(message));
    while let Some(field) = reader.next_field()? {
        if field.number != *number {
            continue;
        }
        found = match rest.is_empty() {
            true => Some(field.text(MESSAGE)?),
            false => splice(field.bytes(MESSAGE)?, rest)?.or(found),
        };
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use tidegate_codec::protobuf::wire::{put_bytes, put_uint};

    use super::*;

    fn message(fields: &[(u32, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        fields.iter().for_each(|(number, value)| put_bytes(&mut out, *number, value));
        out
    }

    #[test]
    fn a_name_is_found_wherever_its_fields_stand() {
        let spec = message(&[(3, b"signature"), (1, b"flights")]);
        let mut predict = message(&[(2, b"an input"), (1, &spec), (3, b"x")]);
        put_uint(&mut predict, 9, 7);
        assert_eq!(splice(&predict, SPEC).unwrap(), Some("flights"));
        assert_eq!(splice(&predict, OWN).unwrap(), Some(std::str::from_utf8(&spec).unwrap()));
        let task = message(&[(1, &spec)]);
        assert_eq!(splice(&message(&[(1, &task), (2, b"input")]), TASKS).unwrap(), Some("flights"));
    }

    #[test]
    fn of_several_the_last_counts_and_one_without_a_name_does_not() {
        let (first, second) = (message(&[(1, b"a"), (1, b"b")]), message(&[(3, b"signature")]));
        assert_eq!(splice(&message(&[(1, &first), (1, &second)]), SPEC).unwrap(), Some("b"));
        assert_eq!(splice(&second, OWN).unwrap(), None);
        assert_eq!(splice(b"", SPEC).unwrap(), None);
    }

    #[test]
    fn what_is_no_protocol_buffer_is_said() {
        for bad in [&b"\x0a\x05abc"[..], b"\x08\x01", b"\xff", b"\x0a\x01\xff"] {
            assert!(splice(bad, OWN).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn methods_without_a_model_are_not_forwarded() {
        for path in ["/inference.GRPCInferenceService/ServerLive", "/grpc.health.v1.Health/Check", "/x", ""] {
            assert_eq!(named_by(path), None, "{path}");
        }
        assert_eq!(named_by("/inference.GRPCInferenceService/ModelReady"), Some(Named { path: OWN, needs: false }));
    }
}
