//! The body of a REST predict request, row form or columnar, parsed straight into columns.
//! A first pass finds the outermost keys, a second one reads the values.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::json::document::{malformed_before, open_document, read_signature_name};
use crate::json::explain;
use crate::json::rows::{RowShape, read_row};
use crate::json::scalar::is_base64;
use crate::json::scanner::Scanner;
use crate::signatures::sequences::SEQUENCE_ID;
use crate::signatures::{InputShape, InputTally, RequestRows, Signature, TensorSpec, show_shape};
use crate::status::{Code, Status};
use crate::tensors::{Column, Lease, Page, Room};

/// Outermost keys with their quotes, each looked for in every request.
static SIGNATURE_NAME: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"signature_name\""));
static INSTANCES: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"instances\""));
static INPUTS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"inputs\""));

/// Whether values come by row (`instances`) or by input (`inputs`); the answer has the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `{"instances": [...]}`, answered by `{"predictions": [...]}`.
    Row,
    /// `{"inputs": ...}`, answered by `{"outputs": ...}`.
    Columnar,
}

/// A body whose outermost keys are known.
#[derive(Debug)]
pub struct JsonRequest<'a> {
    /// As sent, or empty.
    pub signature_name: String,
    /// Row or columnar.
    pub form: Form,
    document: Scanner<'a>,
    values: Scanner<'a>,
    /// Whether the body after the values is still to be checked.
    unread_tail: bool,
}

impl<'a> JsonRequest<'a> {
    /// Looks at the outermost keys. The values are read later, unless a key follows that must be known before.
    pub fn parse(body: &'a [u8]) -> Result<JsonRequest<'a>, Status> {
        let scanner = open_document(body)?;
        // Without another outermost key to come, one pass does; these words in a string value only cost a second one.
        let has = |word: &Finder| word.find(body).is_some();
        let signature_may_follow = has(&SIGNATURE_NAME);
        let form_may_repeat = has(&INSTANCES) && has(&INPUTS);
        Self::scan_keys(scanner, signature_may_follow || form_may_repeat).map_err(|why| malformed_before(scanner, why))
    }

    fn scan_keys(mut scanner: Scanner<'a>, to_the_end: bool) -> Result<JsonRequest<'a>, Status> {
        let document = scanner;
        scanner.eat(b'{');
        let mut signature_name = String::new();
        let mut values: Option<(Form, Scanner<'a>)> = None;
        let (mut first, mut buffer) = (true, Vec::new());
        while scanner.more(b'}', first)? {
            first = false;
            let form = match scanner.key(&mut buffer)? {
                b"instances" => Form::Row,
                b"inputs" => Form::Columnar,
                b"signature_name" => {
                    signature_name = read_signature_name(&mut scanner, document)?;
                    continue;
                }
                _ => {
                    scanner.skip()?;
                    continue;
                }
            };
            if values.is_some_and(|(other, _)| other != form) {
                return Err(Status::invalid(format!(
                    "JSON Value: {} Not formatted correctly expecting only one of 'inputs' or 'instances' keys to \
                     exist ",
                    document.show_value()
                )));
            }
            values = Some((form, scanner));
            if !to_the_end {
                return Ok(JsonRequest { signature_name, form, document, values: scanner, unread_tail: true });
            }
            scanner.skip()?;
        }
        scanner.end()?;
        let (form, values) = values.ok_or_else(|| Status::invalid("Missing 'inputs' or 'instances' key"))?;
        Ok(JsonRequest { signature_name, form, document, values, unread_tail: false })
    }

    /// Appends the values to the open batch. On error columns may hold a part: the caller truncates them.
    pub fn read_inputs(&self, signature: &Signature, page: &mut Page<'_>) -> Result<RequestRows, Status> {
        self.read_values(signature, page).map_err(|why| malformed_before(self.document, why))
    }

    /// The sequence that it belongs to by a signature of sequences, without its other inputs; empty where it says none, or
    /// none that can be read.
    pub fn sequence(&self, signature: &Signature, room: &mut dyn Room) -> Vec<u8> {
        signature.read_sequence_id(|index, column| match (self.form, self.values.member(SEQUENCE_ID)?) {
            (Form::Columnar, Some(mut id)) => read_tensor(&mut id, &signature.inputs[index], column, room).map(drop),
            _ => Ok(()),
        })
    }

    fn read_values(&self, signature: &Signature, page: &mut Page<'_>) -> Result<RequestRows, Status> {
        if signature.inputs.is_empty() {
            return Err(Status::invalid(format!("Failed to get input map for signature: {}", signature.name)));
        }
        let mut scanner = self.values;
        let mut tally = InputTally::new(signature, page.shapes);
        match self.form {
            Form::Row => {
                let mut shapes: Vec<RowShape> = signature.inputs.iter().map(RowShape::of_row).collect();
                let rows = self.read_rows(&mut scanner, signature, page, &mut shapes)?;
                let came = |index: usize, shape: &RowShape| shape.rows() > 0 || signature.defaults[index].is_none();
                for (index, shape) in shapes.iter().enumerate().filter(|(index, shape)| came(*index, shape)) {
                    tally.note(index, found(&signature.inputs[index], rows, shape)?, page.shapes)?;
                }
            }
            Form::Columnar => read_columns(&mut scanner, signature, page, &mut tally)?,
        }
        if self.unread_tail {
            let mut buffer = Vec::new();
            while scanner.more(b'}', false)? {
                scanner.key(&mut buffer)?;
                scanner.skip()?;
            }
            scanner.end()?;
        }
        tally.settle(page)?.ok_or_else(|| Status::invalid("Missing 'inputs' or 'instances' key"))
    }

    fn read_rows(
        &self,
        scanner: &mut Scanner<'_>,
        signature: &Signature,
        page: &mut Page<'_>,
        shapes: &mut [RowShape],
    ) -> Result<usize, Status> {
        let Page { columns, room, .. } = page;
        if !scanner.eat(b'[') {
            let value = self.document.show_value();
            return Err(Status::invalid(format!("JSON Value: {value} Expecting 'instances' to be an list/array")));
        }
        let mut rows = 0;
        let mut named = false;
        while scanner.more(b']', rows == 0)? {
            let is_object = scanner.peek() == b'{' && !is_base64(scanner);
            if rows == 0 {
                named = is_object;
                if !named && signature.inputs.len() > 1 {
                    return Err(Status::invalid(
                        "instances is a plain list, but expecting list of objects as multiple input tensors required as \
                         per tensorinfo_map",
                    ));
                }
            }
            match (named, is_object) {
                (true, true) => read_object(scanner, signature, columns, shapes, rows, *room)?,
                (false, false) => {
                    read_row(scanner, &signature.inputs[0], &mut columns[0], &mut shapes[0], *room).map_err(|why| {
                        in_row(why, &format!("Failed to process element: {rows} of 'instances' list."), "")
                    })?;
                }
                (true, false) => {
                    let text = format!("Expecting object but got list at item {rows} of input list");
                    return Err(Status::invalid(text));
                }
                (false, true) => {
                    let text = format!("Expecting value/list but got object at item {rows} of input list");
                    return Err(Status::invalid(text));
                }
            }
            rows += 1;
        }
        if rows == 0 {
            let value = self.document.show_value();
            return Err(Status::invalid(format!("JSON Value: {value} No values in 'instances' array")));
        }
        Ok(rows)
    }
}

/// Says where a value is wrong; a text that is no JSON at all, or too much, keeps its own message.
#[cold]
fn in_row(why: Status, place: &str, input: &str) -> Status {
    if why.code == Code::ResourceExhausted || why.message.starts_with("JSON Parse error") {
        return why;
    }
    let code = if why.code == Code::Unimplemented { Code::InvalidArgument } else { why.code };
    Status::new(code, format!("{place}{input} Error: {why}"))
}

fn read_object(
    scanner: &mut Scanner<'_>,
    signature: &Signature,
    columns: &mut [Lease],
    shapes: &mut [RowShape],
    row: usize,
    room: &mut dyn Room,
) -> Result<(), Status> {
    let start = *scanner;
    scanner.eat(b'{');
    let mut buffer = Vec::new();
    let mut members = 0;
    while scanner.more(b'}', members == 0)? {
        let key = scanner.key(&mut buffer)?;
        let Some(index) = signature.input_index(key, members) else {
            let name = String::from_utf8_lossy(key).into_owned();
            return Err(Status::invalid(format!(
                "Failed to process element: {row} key: {name} of 'instances' list. Error: INVALID_ARGUMENT: JSON \
                 object: does not have named input: {name}"
            )));
        };
        let spec = &signature.inputs[index];
        if shapes[index].rows() > row {
            return Err(wrong_keys(start, signature, row));
        }
        read_row(scanner, spec, &mut columns[index], &mut shapes[index], room).map_err(|why| {
            let place = format!("Failed to process element: {row} key: {} of 'instances' list.", spec.name);
            in_row(why, &place, "")
        })?;
        members += 1;
    }
    let all = members == signature.inputs.len();
    if (signature.has_defaults() || !all) && !rest_has_defaults(signature, shapes, row) {
        return Err(wrong_keys(start, signature, row));
    }
    Ok(())
}

/// Whether what a row leaves out has defaults, and every row before left it out too.
#[cold]
fn rest_has_defaults(signature: &Signature, shapes: &[RowShape], row: usize) -> bool {
    let mut inputs = shapes.iter().zip(&*signature.defaults);
    inputs.all(|(shape, default)| shape.rows() == row + 1 || (shape.rows() == 0 && default.is_some()))
}

#[cold]
fn wrong_keys(object: Scanner<'_>, signature: &Signature, row: usize) -> Status {
    let mut names: Vec<&str> = signature.inputs.iter().map(|spec| spec.name.as_str()).collect();
    names.sort_unstable();
    Status::invalid(format!(
        "Failed to process element: {row} of 'instances' list. JSON object: {} keys must be equal to: {}",
        object.show_value(),
        names.join(",")
    ))
}

/// The rows of an input that came in rows. A tensor that counts as one row has the rows as its first axis.
fn found(spec: &TensorSpec, rows: usize, shape: &RowShape) -> Result<InputShape, Status> {
    if !spec.is_free() {
        return Ok(InputShape {
            rows,
            inner: if shape.is_flat() { vec![1] } else { shape.dims() },
            flat: shape.is_flat(),
        });
    }
    let mut dims = shape.dims();
    dims.insert(0, rows);
    InputShape::of_shape(spec, &dims).ok_or_else(|| {
        let (sent, want) = (show_shape(&dims), spec.show());
        Status::invalid(format!("input '{}' has shape {sent}, but the signature expects {want}", spec.name))
    })
}

fn read_columns(
    scanner: &mut Scanner<'_>,
    signature: &Signature,
    page: &mut Page<'_>,
    tally: &mut InputTally<'_>,
) -> Result<(), Status> {
    if scanner.peek() != b'{' || is_base64(scanner) {
        if signature.inputs.len() > 1 {
            return Err(Status::invalid(
                "inputs is a plain value/list, but expecting an object as multiple input tensors required as per \
                 tensorinfo_map",
            ));
        }
        let found = read_column(scanner, &signature.inputs[0], &mut page.columns[0], page.room)?;
        return tally.note(0, found, page.shapes);
    }
    scanner.eat(b'{');
    let mut seen = vec![false; signature.inputs.len()];
    let (mut members, mut buffer) = (0, Vec::new());
    while scanner.more(b'}', members == 0)? {
        members += 1;
        let key = scanner.key(&mut buffer)?;
        let Some(index) = signature.input_index(key, members - 1) else {
            // As TensorFlow Serving does, which looks for the inputs that it knows.
            scanner.skip()?;
            continue;
        };
        let spec = &signature.inputs[index];
        if seen[index] {
            return Err(Status::invalid(format!("input '{}' is given twice in 'inputs' object.", spec.name)));
        }
        seen[index] = true;
        let found = read_column(scanner, spec, &mut page.columns[index], page.room)?;
        tally.note(index, found, page.shapes)?;
    }
    let mut missing = signature.inputs.iter().zip(&*signature.defaults).zip(&seen);
    match missing.find(|((_, default), seen)| !**seen && default.is_none()) {
        Some(((spec, _), _)) => Err(Status::invalid(format!("Missing named input: {} in 'inputs' object.", spec.name))),
        None => Ok(()),
    }
}

fn read_column(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    room: &mut dyn Room,
) -> Result<InputShape, Status> {
    let start = *scanner;
    read_tensor(scanner, spec, column, room).map_err(|why| match why.code {
        Code::ResourceExhausted => why,
        _ => explain::complaint(&start, spec).err().unwrap_or(why),
    })
}

fn read_tensor(
    scanner: &mut Scanner<'_>,
    spec: &TensorSpec,
    column: &mut Column,
    room: &mut dyn Room,
) -> Result<InputShape, Status> {
    if spec.is_free() {
        let mut shape = RowShape::of_whole(spec);
        read_row(scanner, spec, column, &mut shape, room)?;
        return Ok(InputShape { rows: 1, inner: shape.dims(), flat: false });
    }
    if !scanner.eat(b'[') {
        let value = scanner.show_value();
        return Err(Status::invalid(format!(
            "input '{}' is {value}, but the signature expects a list of rows",
            spec.name
        )));
    }
    let mut shape = RowShape::of_row(spec);
    while scanner.more(b']', shape.rows() == 0)? {
        let row = shape.rows();
        read_row(scanner, spec, column, &mut shape, room)
            .map_err(|why| in_row(why, "Failed to process 'inputs'", &format!(" '{}' row {row}.", spec.name)))?;
    }
    found(spec, shape.rows(), &shape)
}
