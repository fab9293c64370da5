//! Triton's system shared memory: tensors that are in memory that client and server share, and the messages that register
//! such regions.

use std::fmt::Debug;
use std::sync::Arc;

use crate::json::text::{write_list, write_text};
use crate::protobuf::wire::{self, Reader};
use crate::status::Status;

/// The parameter of a tensor that names its region.
pub const REGION: &str = "shared_memory_region";
/// How many bytes of it are the tensor's.
pub const BYTE_SIZE: &str = "shared_memory_byte_size";
/// Where they begin.
pub const OFFSET: &str = "shared_memory_offset";

/// A registered region.
pub trait Region: Debug + Send + Sync {
    /// Reads the bytes from there on, or says why they cannot be read.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), Status>;

    /// Writes bytes there, or says why they cannot be written.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), Status>;
}

/// Where a tensor is, as its client says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The name under which the region is registered.
    pub region: String,
    /// Bytes before the tensor.
    pub offset: u64,
    /// Bytes of the tensor, or for it.
    pub size: u64,
}

/// A parameter of a tensor, as far as it says where that is.
pub enum Told<'a> {
    /// A string.
    Text(&'a str),
    /// A whole number.
    Count(u64),
    /// Anything else.
    Other,
}

/// Notes a parameter of a tensor, where it says where that is.
pub fn note(place: &mut Option<Box<Place>>, parameter: &str, told: &Told<'_>) -> Result<(), Status> {
    match (parameter, told) {
        (REGION, Told::Text(name)) => place.get_or_insert_default().region = (*name).to_owned(),
        (BYTE_SIZE, Told::Count(size)) => place.get_or_insert_default().size = *size,
        (OFFSET, Told::Count(offset)) => place.get_or_insert_default().offset = *offset,
        (REGION, _) => return Err(Status::invalid(format!("parameter '{REGION}' must be a string"))),
        (BYTE_SIZE | OFFSET, _) => {
            return Err(Status::invalid(format!("parameter '{parameter}' must be a number of bytes")));
        }
        _ => {}
    }
    Ok(())
}

/// A place in a region that is there.
#[derive(Clone, Debug)]
pub struct OpenPlace {
    /// As its client says.
    pub place: Place,
    /// Its region.
    pub region: Arc<dyn Region>,
}

impl OpenPlace {
    /// Reads an input's bytes.
    pub fn read(&self, bytes: &mut [u8]) -> Result<(), Status> {
        self.region.read(self.place.offset, bytes)
    }

    /// Writes an output's bytes.
    pub fn write(&self, output: &str, bytes: &[u8]) -> Result<(), Status> {
        let (needed, there) = (bytes.len(), self.place.size);
        if needed as u64 > there {
            return Err(Status::invalid(format!(
                "shared memory size specified with the request for output '{output}' ({there} bytes) should be at least \
                 {needed} bytes to hold the results"
            )));
        }
        self.region.write(self.place.offset, bytes)
    }
}

/// A region as it is registered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// The name of the shared memory object.
    pub key: String,
    /// Bytes of the object before the region.
    pub offset: u64,
    /// Bytes of the region.
    pub size: u64,
}

/// `SystemSharedMemoryRegisterRequest`.
pub fn parse_register(message: &[u8]) -> Result<Registration, Status> {
    const MESSAGE: &str = "SystemSharedMemoryRegisterRequest";
    let mut found = Registration::default();
    let mut reader = Reader::new(message);
    while let Some(field) = reader.next_field()? {
        match field.number {
            1 => found.name = field.text(MESSAGE)?.to_owned(),
            2 => found.key = field.text(MESSAGE)?.to_owned(),
            3 => found.offset = field.varint(MESSAGE)?,
            4 => found.size = field.varint(MESSAGE)?,
            _ => {}
        }
    }
    Ok(found)
}

/// The name in a `SystemSharedMemoryStatusRequest` or a `SystemSharedMemoryUnregisterRequest`, empty for all regions.
pub fn parse_name(message: &[u8]) -> Result<String, Status> {
    let mut name = String::new();
    let mut reader = Reader::new(message);
    while let Some(field) = reader.next_field()? {
        if field.number == 1 {
            name = field.text("SystemSharedMemoryStatusRequest")?.to_owned();
        }
    }
    Ok(name)
}

/// `SystemSharedMemoryStatusResponse`.
pub fn status_message(regions: &[Registration]) -> Vec<u8> {
    let mut out = Vec::new();
    for Registration { name, key, offset, size } in regions {
        let mut status = Vec::new();
        wire::put_bytes(&mut status, 1, name.as_bytes());
        wire::put_bytes(&mut status, 2, key.as_bytes());
        wire::put_uint(&mut status, 3, *offset);
        wire::put_uint(&mut status, 4, *size);
        let mut entry = Vec::new();
        wire::put_bytes(&mut entry, 1, name.as_bytes());
        wire::put_bytes(&mut entry, 2, &status);
        wire::put_bytes(&mut out, 1, &entry);
    }
    out
}

/// The same as JSON.
pub fn status_json(regions: &[Registration]) -> Vec<u8> {
    let mut out = Vec::new();
    write_list(&mut out, regions.len(), |out, index| {
        let Registration { name, key, offset, size } = &regions[index];
        out.extend_from_slice(b"{\"name\":");
        write_text(out, name);
        out.extend_from_slice(b",\"key\":");
        write_text(out, key);
        out.extend_from_slice(format!(",\"offset\":{offset},\"byte_size\":{size}}}").as_bytes());
    });
    out
}
