//! The JSON of an infer request, and the binary tensors that may follow it. A first pass finds where the values of each
//! input begin, a second one reads them.

use std::borrow::Cow;

use crate::json::document::open_document;
use crate::json::scanner::Scanner;
use crate::open_inference::answer::OutputForm;
use crate::open_inference::classification::CLASSIFICATION;
use crate::open_inference::input::{InferData, InferInput};
use crate::open_inference::request::{
    InferRequest, PRIORITY, SIGNATURE_NAME, TIMEOUT, WantedOutput, wrong_count, wrong_priority, wrong_turn,
};
use crate::open_inference::shared_memory::{self, Registration, Told};
use crate::signatures::sequences::{SEQUENCE_END, SEQUENCE_ID, SEQUENCE_START};
use crate::status::Status;
use crate::tensors::Number;

/// Reads a body whose first `json_length` bytes are JSON; without any it is one tensor.
pub fn parse(body: &[u8], json_length: usize) -> Result<InferRequest<'_>, Status> {
    let Some((json, mut binary)) = body.split_at_checked(json_length) else {
        let length = body.len();
        return Err(Status::invalid(format!(
            "Inference-Header-Content-Length is {json_length}, but the body has {length} bytes"
        )));
    };
    if json.is_empty() && !binary.is_empty() {
        return alone(binary);
    }
    let mut scanner = open_document(json)?;
    let mut request = InferRequest::default();
    let (mut sizes, mut has_inputs) = (Vec::new(), false);
    members(&mut scanner, "the request", |key, values| {
        match key {
            "id" | "parameters" | "outputs" if is_null(values) => {}
            "id" => request.id = text(values, "id")?.into(),
            "parameters" => parameters(values, |name, parameter| note_parameter(&mut request, name, parameter))?,
            "inputs" => {
                has_inputs = true;
                objects(values, "inputs", |values| {
                    let (input, size) = read_input(values)?;
                    sizes.push(size);
                    request.push_input(input)
                })?;
            }
            "outputs" => objects(values, "outputs", |values| request.push_output(read_output(values)?))?,
            _ => values.skip()?,
        }
        Ok(())
    })?;
    scanner.end()?;
    if !has_inputs {
        return Err(Status::invalid("the request has no 'inputs': send a list of tensors"));
    }
    for (input, size) in request.inputs_mut().iter_mut().zip(sizes) {
        let Some(size) = size else { continue };
        let name = &input.name;
        if !matches!(input.data, InferData::Missing) {
            return Err(Status::invalid(format!("input '{name}' has 'data' and 'binary_data_size': send one of them")));
        }
        let Some((bytes, rest)) = binary.split_at_checked(size) else {
            let left = binary.len();
            return Err(Status::invalid(format!(
                "input '{name}' has binary_data_size {size}, but {left} bytes are left of the body"
            )));
        };
        input.data = InferData::Raw(bytes);
        binary = rest;
    }
    match binary.len() {
        0 => Ok(request),
        left => Err(Status::invalid(format!("{left} bytes of the body after the JSON belong to no input"))),
    }
}

/// Answered as bytes, as it came.
fn alone(body: &[u8]) -> Result<InferRequest<'_>, Status> {
    let mut request = InferRequest::default();
    request.form = OutputForm::Bytes;
    request.push_input(InferInput { data: InferData::Alone(body), ..InferInput::new(Cow::Borrowed("")) })?;
    Ok(request)
}

fn form(binary: bool) -> OutputForm {
    if binary { OutputForm::Bytes } else { OutputForm::Values }
}

fn read_input<'a>(values: &mut Scanner<'a>) -> Result<(InferInput<'a>, Option<usize>), Status> {
    let mut input = InferInput::new(Cow::Borrowed(""));
    let (mut size, mut shaped) = (None, false);
    members(values, "an input", |key, values| {
        match key {
            "name" => input.name = text(values, "name")?.into(),
            "datatype" => input.datatype = text(values, "datatype")?.into(),
            "shape" => {
                shaped = true;
                read_shape(values, &mut input)?;
            }
            "data" => {
                input.data = InferData::Json(*values);
                values.skip()?;
            }
            "parameters" if is_null(values) => {}
            "parameters" => parameters(values, |name, parameter| match (name, &parameter) {
                ("binary_data_size", Parameter::Count(count)) => {
                    size = Some(*count);
                    Ok(())
                }
                ("binary_data_size", _) => Err(wrong_parameter(name)),
                _ => shared_memory::note(&mut input.place, name, &told(&parameter)),
            })?,
            _ => values.skip()?,
        }
        Ok(())
    })?;
    match shaped {
        true => Ok((input, size)),
        false => Err(Status::invalid(format!("input '{}' has no 'shape': send that of its data", input.name))),
    }
}

fn read_shape(values: &mut Scanner<'_>, input: &mut InferInput<'_>) -> Result<(), Status> {
    let wrong = |values: &Scanner<'_>| {
        let found = values.show_value();
        Status::invalid(format!("'shape' of an input is {found}: send a list of whole numbers"))
    };
    let start = *values;
    if !values.eat(b'[') {
        return Err(wrong(&start));
    }
    input.shape.clear();
    while values.more(b']', input.shape.is_empty())? {
        let here = *values;
        let size = match values.peek() {
            b'-' | b'0'..=b'9' => values.number()?,
            _ => return Err(wrong(&here)),
        };
        match size {
            Number::Unsigned(size) => input.push_dim(i64::try_from(size).map_err(|_| wrong(&here))?)?,
            Number::Signed(size) => input.push_dim(size)?,
            Number::Float(_) => return Err(wrong(&here)),
        }
    }
    Ok(())
}

fn read_output<'a>(values: &mut Scanner<'a>) -> Result<WantedOutput<'a>, Status> {
    let mut output = WantedOutput { name: Cow::Borrowed(""), form: None, classes: 0, place: None, open: None };
    members(values, "an output", |key, values| {
        match key {
            "name" => output.name = text(values, "name")?.into(),
            "parameters" if is_null(values) => {}
            "parameters" => parameters(values, |name, parameter| match (name, &parameter) {
                ("binary_data", Parameter::Truth(binary)) => {
                    output.form = Some(form(*binary));
                    Ok(())
                }
                (CLASSIFICATION, Parameter::Count(most)) => {
                    output.classes = *most;
                    Ok(())
                }
                (CLASSIFICATION, _) => Err(wrong_count(name)),
                ("binary_data", _) => Err(wrong_parameter(name)),
                _ => shared_memory::note(&mut output.place, name, &told(&parameter)),
            })?,
            _ => values.skip()?,
        }
        Ok(())
    })?;
    Ok(output)
}

fn told(parameter: &Parameter) -> Told<'_> {
    match parameter {
        Parameter::Text(text) => Told::Text(text),
        Parameter::Count(count) => Told::Count(*count as u64),
        _ => Told::Other,
    }
}

/// The body of a request that registers a region under this name.
pub fn parse_registration(name: String, body: &[u8]) -> Result<Registration, Status> {
    let mut found = Registration { name, ..Registration::default() };
    let mut scanner = open_document(body)?;
    parameters(&mut scanner, |name, parameter| match (name, parameter) {
        ("key", Parameter::Text(key)) => {
            found.key = key;
            Ok(())
        }
        ("offset", Parameter::Count(offset)) => {
            found.offset = offset as u64;
            Ok(())
        }
        ("byte_size", Parameter::Count(size)) => {
            found.size = size as u64;
            Ok(())
        }
        ("key" | "offset" | "byte_size", _) => Err(Status::invalid(format!(
            "'{name}' of a shared memory region: send key as a string, offset and byte_size as numbers of bytes"
        ))),
        _ => Ok(()),
    })?;
    scanner.end()?;
    Ok(found)
}

fn note_parameter(request: &mut InferRequest<'_>, name: &str, parameter: Parameter) -> Result<(), Status> {
    match (name, parameter) {
        (SIGNATURE_NAME, Parameter::Text(signature)) => request.signature_name = signature.into(),
        ("binary_data_output", Parameter::Truth(binary)) => request.form = form(binary),
        (PRIORITY, Parameter::Count(level)) => request.priority = level as u64,
        (PRIORITY, _) => return Err(wrong_priority()),
        (TIMEOUT, Parameter::Count(micros)) => request.timeout_us = micros as u64,
        (TIMEOUT, _) => return Err(wrong_count(name)),
        (SEQUENCE_ID, Parameter::Text(id)) => request.turn.id = id.into(),
        (SEQUENCE_ID, Parameter::Count(0)) => {}
        (SEQUENCE_ID, Parameter::Count(id)) => request.turn.id = id.to_string().into(),
        (SEQUENCE_START, Parameter::Truth(start)) => request.turn.start = start,
        (SEQUENCE_END, Parameter::Truth(end)) => request.turn.end = end,
        (SEQUENCE_ID | SEQUENCE_START | SEQUENCE_END, _) => return Err(wrong_turn(name)),
        (SIGNATURE_NAME | "binary_data_output", _) => return Err(wrong_parameter(name)),
        _ => {}
    }
    Ok(())
}

/// The value of a parameter, as far as any is looked at.
enum Parameter {
    Text(String),
    Truth(bool),
    Count(usize),
    Other,
}

fn parameters(
    values: &mut Scanner<'_>,
    mut each: impl FnMut(&str, Parameter) -> Result<(), Status>,
) -> Result<(), Status> {
    members(values, "'parameters'", |name, values| {
        if is_null(values) {
            return Ok(());
        }
        let parameter = match values.peek() {
            b'"' => Parameter::Text(text(values, name)?),
            b't' | b'f' => {
                let truth = *values;
                values.skip()?;
                Parameter::Truth({ truth }.word(b"true"))
            }
            b'0'..=b'9' => match values.number()? {
                Number::Unsigned(count) => usize::try_from(count).map_or(Parameter::Other, Parameter::Count),
                _ => Parameter::Other,
            },
            b'[' | b'{' => {
                let found = values.show_value();
                return Err(Status::invalid(format!(
                    "parameter '{name}' is {found}: send a string, a number, true or false"
                )));
            }
            _ => {
                values.skip()?;
                Parameter::Other
            }
        };
        each(name, parameter)
    })
}

#[cold]
fn wrong_parameter(name: &str) -> Status {
    let wanted = match name {
        SIGNATURE_NAME => "a string",
        "binary_data_size" => "a number of bytes",
        _ => "true or false",
    };
    Status::invalid(format!("parameter '{name}' must be {wanted}"))
}

/// Takes a null. It counts as a member that was left out: clients whose requests are typed objects send one for what
/// nobody has set.
fn is_null(values: &mut Scanner<'_>) -> bool {
    values.word(b"null")
}

fn text(values: &mut Scanner<'_>, what: &str) -> Result<String, Status> {
    if values.peek() != b'"' {
        let found = values.show_value();
        return Err(Status::invalid(format!("'{what}' is {found}: send a string")));
    }
    Ok(String::from_utf8_lossy(values.name(&mut Vec::new())?).into_owned())
}

/// Reads an object; `each` reads the value of each key.
fn members<'a>(
    values: &mut Scanner<'a>,
    what: &str,
    mut each: impl FnMut(&str, &mut Scanner<'a>) -> Result<(), Status>,
) -> Result<(), Status> {
    let start = *values;
    if !values.eat(b'{') {
        return Err(Status::invalid(format!("{what} is {}: send an object", start.show_value())));
    }
    let (mut first, mut buffer) = (true, Vec::new());
    while values.more(b'}', first)? {
        first = false;
        let key = String::from_utf8_lossy(values.key(&mut buffer)?).into_owned();
        each(&key, values)?;
    }
    Ok(())
}

/// Reads a list; `each` reads one of its values.
fn objects<'a>(
    values: &mut Scanner<'a>,
    what: &str,
    mut each: impl FnMut(&mut Scanner<'a>) -> Result<(), Status>,
) -> Result<(), Status> {
    let start = *values;
    if !values.eat(b'[') {
        return Err(Status::invalid(format!("'{what}' is {}: send a list", start.show_value())));
    }
    let mut first = true;
    while values.more(b']', first)? {
        first = false;
        each(values)?;
    }
    Ok(())
}
