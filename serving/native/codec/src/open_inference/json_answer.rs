//! The JSON of an infer answer, and the binary tensors that follow it.

use crate::json::predict_response::write_number;
use crate::json::text::{write_list, write_text};
use crate::open_inference::answer::{InferAnswer, NamedOutput, OutputForm};
use crate::open_inference::{datatype, raw};
use crate::status::Status;
use crate::tensors::{Column, Slice};

/// A body, and how many bytes of it are JSON where others follow.
#[derive(Debug)]
pub struct InferBody {
    /// All of it.
    pub bytes: Vec<u8>,
    /// None where all of it is JSON.
    pub json_length: Option<usize>,
}

/// Writes the body.
pub fn encode<'a>(
    model: &str,
    version: i64,
    answer: &'a InferAnswer,
    output: impl Fn(usize) -> (&'a str, Slice<'a>),
) -> Result<InferBody, Status> {
    let mut out = b"{\"model_name\":".to_vec();
    write_text(&mut out, model);
    out.extend_from_slice(format!(",\"model_version\":\"{version}\"").as_bytes());
    if !answer.id.is_empty() {
        out.extend_from_slice(b",\"id\":");
        write_text(&mut out, &answer.id);
    }
    out.extend_from_slice(b",\"outputs\":[");
    let named = answer.named(output);
    for (at, output) in named.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match output.write_shared()? {
            Some(_) => write_placed(&mut out, output),
            None => write_output(&mut out, output.name, &output.slice(), output.form)?,
        }
    }
    out.extend_from_slice(b"]}");
    let in_body = |output: &&NamedOutput<'_>| output.form == OutputForm::Bytes && output.place.is_none();
    let binary = || named.iter().filter(in_body).map(NamedOutput::slice);
    if binary().next().is_none() {
        return Ok(InferBody { bytes: out, json_length: None });
    }
    let json_length = Some(out.len());
    out.reserve_exact(binary().map(|slice| raw::length(&slice)).sum());
    binary().for_each(|slice| raw::write(&mut out, &slice));
    Ok(InferBody { bytes: out, json_length })
}

/// An output that is in shared memory. Where it has parameters, Triton's C++ client takes it for one in the body.
fn write_placed(out: &mut Vec<u8>, output: &NamedOutput<'_>) {
    write_head(out, output.name, &output.slice());
    out.push(b'}');
}

fn write_head(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>) {
    out.extend_from_slice(b"{\"name\":");
    write_text(out, name);
    let dims: Vec<String> = slice.dims().map(|size| size.to_string()).collect();
    let (datatype, dims) = (datatype::name(slice.dtype), dims.join(","));
    out.extend_from_slice(format!(",\"datatype\":\"{datatype}\",\"shape\":[{dims}]").as_bytes());
}

fn write_output(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>, form: OutputForm) -> Result<(), Status> {
    write_head(out, name, slice);
    match form {
        OutputForm::Bytes => {
            let size = raw::length(slice);
            out.extend_from_slice(format!(",\"parameters\":{{\"binary_data_size\":{size}}}").as_bytes());
        }
        OutputForm::Values => {
            out.extend_from_slice(b",\"data\":");
            write_values(out, name, slice)?;
        }
    }
    out.push(b'}');
    Ok(())
}

fn write_values(out: &mut Vec<u8>, name: &str, slice: &Slice<'_>) -> Result<(), Status> {
    if let Column::Strings(_) = slice.column {
        let texts: Result<Vec<&str>, _> = slice.strings().map(std::str::from_utf8).collect();
        let texts = texts.map_err(|_| {
            Status::invalid(format!(
                "output '{name}' has bytes that are no UTF-8, which JSON cannot carry: ask for it with parameter \
                 'binary_data'"
            ))
        })?;
        write_list(out, texts.len(), |out, index| write_text(out, texts[index]));
        return Ok(());
    }
    let (raw, size) = (slice.raw(), slice.dtype.size());
    write_list(out, raw.len() / size, |out, index| write_number(out, slice.dtype, &raw[index * size..][..size]));
    Ok(())
}
