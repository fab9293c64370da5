//! The body of a REST classify or regress request: JSON objects of features, made into serialized examples as gRPC
//! clients send them.

use crate::json::document::{malformed_before, open_document, read_signature_name};
use crate::json::scalar::{is_base64, read_base64};
use crate::json::scanner::Scanner;
use crate::protobuf::examples::ExampleInput;
use crate::protobuf::wire;
use crate::status::Status;
use crate::tensors::Number;

/// Reads the body: the signature's name, which may be empty, and the examples.
pub fn parse(body: &[u8]) -> Result<(String, ExampleInput<'static>), Status> {
    let document = open_document(body)?;
    read_body(document).map_err(|why| malformed_before(document, why))
}

fn read_body(document: Scanner<'_>) -> Result<(String, ExampleInput<'static>), Status> {
    let mut scanner = document;
    scanner.eat(b'{');
    let mut signature_name = String::new();
    let (mut context, mut examples): (Option<Scanner<'_>>, Option<Scanner<'_>>) = (None, None);
    let (mut first, mut buffer) = (true, Vec::new());
    while scanner.more(b'}', first)? {
        first = false;
        match scanner.key(&mut buffer)? {
            b"signature_name" => {
                signature_name = read_signature_name(&mut scanner, document)?;
                continue;
            }
            b"context" => context = context.or(Some(scanner)),
            b"examples" => examples = examples.or(Some(scanner)),
            _ => {}
        }
        scanner.skip()?;
    }
    scanner.end()?;
    let mut input = ExampleInput::default();
    if let Some(mut scanner) = context {
        input.context = read_example(&mut scanner)?.into();
    }
    read_examples(examples, document, &mut input)?;
    Ok((signature_name, input))
}

fn read_examples(
    examples: Option<Scanner<'_>>,
    document: Scanner<'_>,
    input: &mut ExampleInput<'_>,
) -> Result<(), Status> {
    let refuse = |what: &str| Status::invalid(format!("JSON Value: {} {what}", document.show_value()));
    let Some(mut scanner) = examples else {
        return Err(refuse("When method is classify, key 'examples' is expected and was not found"));
    };
    if !scanner.eat(b'[') {
        return Err(refuse("Expecting 'examples' value to be an list/array"));
    }
    while scanner.more(b']', input.examples.is_empty())? {
        input.examples.push(&read_example(&mut scanner)?);
    }
    if input.examples.is_empty() {
        return Err(refuse("'examples' value is an empty array"));
    }
    Ok(())
}

/// One object of features as a serialized example.
fn read_example(scanner: &mut Scanner<'_>) -> Result<Vec<u8>, Status> {
    if scanner.peek() != b'{' {
        let kind = scanner.kind();
        return Err(Status::invalid(format!("Example must be JSON object but got JSON {kind}")));
    }
    scanner.eat(b'{');
    let (mut features, mut entry, mut feature) = (Vec::new(), Vec::new(), Vec::new());
    let (mut first, mut buffer) = (true, Vec::new());
    while scanner.more(b'}', first)? {
        first = false;
        let name = scanner.key(&mut buffer)?.to_owned();
        let values = read_values(scanner, &String::from_utf8_lossy(&name))?;
        entry.clear();
        feature.clear();
        values.write(&mut feature);
        wire::put_bytes(&mut entry, 1, &name);
        wire::put_bytes(&mut entry, 2, &feature);
        wire::put_bytes(&mut features, 1, &entry);
    }
    let mut example = Vec::with_capacity(features.len() + 8);
    wire::put_bytes(&mut example, 1, &features);
    Ok(example)
}

/// The values of one feature, all of the kind that the first one had.
#[derive(Default)]
enum Values {
    /// None so far: a feature that is not there.
    #[default]
    None,
    Bytes(Vec<Vec<u8>>),
    Floats(Vec<f32>),
    Whole(Vec<i64>),
}

/// One value.
enum Item {
    Bytes(Vec<u8>),
    Float(f32),
    Whole(i64),
}

fn read_values(scanner: &mut Scanner<'_>, name: &str) -> Result<Values, Status> {
    let mut values = Values::default();
    if scanner.peek() != b'[' {
        values.push(read_item(scanner, name)?, name)?;
        return Ok(values);
    }
    scanner.eat(b'[');
    let mut first = true;
    while scanner.more(b']', first)? {
        first = false;
        values.push(read_item(scanner, name)?, name)?;
    }
    Ok(values)
}

fn read_item(scanner: &mut Scanner<'_>, name: &str) -> Result<Item, Status> {
    match scanner.peek() {
        b'"' => {
            let mut text = Vec::new();
            scanner.string_into(&mut text)?;
            Ok(Item::Bytes(text))
        }
        b'{' if is_base64(scanner) => {
            let mut bytes = Vec::new();
            read_base64(scanner, &mut bytes)?;
            Ok(Item::Bytes(bytes))
        }
        b't' | b'f' => {
            let truth = scanner.word(b"true");
            if !truth && !scanner.word(b"false") {
                return Err(scanner.error("Invalid value."));
            }
            Ok(Item::Whole(i64::from(truth)))
        }
        b'{' | b'[' | b'n' => {
            let kind = scanner.kind();
            Err(Status::invalid(format!("Feature: {name} has element with unexpected JSON type: {kind}")))
        }
        _ => match scanner.number()? {
            Number::Float(value) => Ok(Item::Float(value as f32)),
            Number::Signed(value) => Ok(Item::Whole(value)),
            Number::Unsigned(value) => i64::try_from(value).map(Item::Whole).map_err(|_| {
                Status::invalid(format!("Feature: {name} has uint64_t element. Only int64_t is supported."))
            }),
        },
    }
}

impl Values {
    fn push(&mut self, item: Item, name: &str) -> Result<(), Status> {
        if matches!(self, Values::None) {
            *self = match item {
                Item::Bytes(value) => Values::Bytes(vec![value]),
                Item::Float(value) => Values::Floats(vec![value]),
                Item::Whole(value) => Values::Whole(vec![value]),
            };
            return Ok(());
        }
        match (&mut *self, item) {
            (Values::Bytes(values), Item::Bytes(value)) => values.push(value),
            (Values::Floats(values), Item::Float(value)) => values.push(value),
            (Values::Whole(values), Item::Whole(value)) => values.push(value),
            (values, _) => {
                let expected = values.kind();
                let text = format!("Unexpected element type in feature: {name} expecting type: {expected}");
                return Err(Status::invalid(text));
            }
        }
        Ok(())
    }

    fn kind(&self) -> &'static str {
        match self {
            Values::None => "UNKNOWN",
            Values::Bytes(_) => "bytes",
            Values::Floats(_) => "float",
            Values::Whole(_) => "int64",
        }
    }

    /// Appends the fields of a `Feature`.
    fn write(&self, out: &mut Vec<u8>) {
        let mut list = Vec::new();
        match self {
            Values::None => {}
            Values::Bytes(values) => {
                values.iter().for_each(|value| wire::put_bytes(&mut list, 1, value));
                wire::put_bytes(out, 1, &list);
            }
            Values::Floats(values) => {
                let packed: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
                wire::put_bytes(&mut list, 1, &packed);
                wire::put_bytes(out, 2, &list);
            }
            Values::Whole(values) => {
                let mut packed = Vec::new();
                values.iter().for_each(|value| wire::put_varint(&mut packed, *value as u64));
                wire::put_bytes(&mut list, 1, &packed);
                wire::put_bytes(out, 3, &list);
            }
        }
    }
}
