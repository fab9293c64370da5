//! The list of all models and their versions, as the model repository extension has it.

use crate::json::document::open_document;
use crate::json::text::{write_list, write_text};
use crate::protobuf::wire::{self, Reader};
use crate::status::{Code, Status};
use crate::version_state::VersionState;

/// One version of one model.
#[derive(Debug)]
pub struct IndexEntry {
    /// The model's name.
    pub model: String,
    /// Where the version stands.
    pub state: VersionState,
}

impl IndexEntry {
    fn state(&self) -> &'static str {
        match self.state.state {
            10 | 20 => "LOADING",
            30 => READY,
            40 => "UNLOADING",
            50 => "UNAVAILABLE",
            _ => "UNKNOWN",
        }
    }

    fn reason(&self) -> &str {
        match self.state.status.code {
            Code::Ok if self.state.state == 50 => "unloaded",
            Code::Ok => "",
            _ => &self.state.status.message,
        }
    }
}

const READY: &str = "READY";

/// Whether a `RepositoryIndexRequest` wants only what is ready.
pub fn parse_message(message: &[u8]) -> Result<bool, Status> {
    let mut ready = false;
    let mut reader = Reader::new(message);
    while let Some(found) = reader.next_field()? {
        if found.number == 2 {
            ready = found.varint("RepositoryIndexRequest")? != 0;
        }
    }
    Ok(ready)
}

/// The same of a body, which may be empty.
pub fn parse_json(body: &[u8]) -> Result<bool, Status> {
    if body.is_empty() {
        return Ok(false);
    }
    let (mut scanner, mut ready) = (open_document(body)?, false);
    scanner.eat(b'{');
    let (mut first, mut buffer) = (true, Vec::new());
    while scanner.more(b'}', first)? {
        first = false;
        let wanted = scanner.key(&mut buffer)? == b"ready";
        ready = if wanted { { scanner }.word(b"true") } else { ready };
        scanner.skip()?;
    }
    scanner.end()?;
    Ok(ready)
}

/// Sorted by name and number; only what is ready, where that is wanted.
pub fn select(mut entries: Vec<IndexEntry>, ready: bool) -> Vec<IndexEntry> {
    entries.retain(|entry| !ready || entry.state() == READY);
    entries.sort_by(|a, b| (&a.model, a.state.version).cmp(&(&b.model, b.state.version)));
    entries
}

/// `RepositoryIndexResponse`.
pub fn message(entries: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    for entry in entries {
        let mut index = Vec::new();
        wire::put_bytes(&mut index, 1, entry.model.as_bytes());
        wire::put_bytes(&mut index, 2, entry.state.version.to_string().as_bytes());
        wire::put_bytes(&mut index, 3, entry.state().as_bytes());
        if !entry.reason().is_empty() {
            wire::put_bytes(&mut index, 4, entry.reason().as_bytes());
        }
        wire::put_bytes(&mut out, 1, &index);
    }
    out
}

/// The names in entries that are sorted, as KServe lists them.
pub fn names_json(entries: &[IndexEntry]) -> Vec<u8> {
    let mut names: Vec<&str> = entries.iter().map(|entry| entry.model.as_str()).collect();
    names.dedup();
    let mut out = b"{\"models\":".to_vec();
    write_list(&mut out, names.len(), |out, index| write_text(out, names[index]));
    out.push(b'}');
    out
}

/// The same as JSON.
pub fn json(entries: &[IndexEntry]) -> Vec<u8> {
    let mut out = Vec::new();
    write_list(&mut out, entries.len(), |out, index| {
        let entry = &entries[index];
        out.extend_from_slice(b"{\"name\":");
        write_text(out, &entry.model);
        let (version, state) = (entry.state.version, entry.state());
        out.extend_from_slice(format!(",\"version\":\"{version}\",\"state\":\"{state}\",\"reason\":").as_bytes());
        write_text(out, entry.reason());
        out.push(b'}');
    });
    out
}
