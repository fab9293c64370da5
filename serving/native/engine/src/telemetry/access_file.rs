//! Where lines of the access log go: a file, which may be moved away meanwhile, or standard error.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;

/// How often it is looked whether the file is still the one with its name.
const LOOK: Duration = Duration::from_secs(1);

/// A file that lines are appended to, made anew once it was moved or deleted; or standard error.
#[derive(Debug)]
pub struct AccessFile {
    path: Option<PathBuf>,
    open: Option<File>,
    looked: Instant,
    /// Whether the file ends in the middle of a line, since its disk was full.
    torn: bool,
}

impl AccessFile {
    /// Opens it; none is standard error. The error names the file.
    pub fn open(path: Option<&Path>) -> io::Result<AccessFile> {
        let open = path.map(appending).transpose()?;
        Ok(AccessFile { path: path.map(Path::to_owned), open, looked: Instant::now(), torn: false })
    }

    /// Writes whole lines, if there are any. What is left of one that an error cut off stays a line of its own.
    pub fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let Some(path) = &self.path else { return io::stderr().lock().write_all(lines) };
        if self.looked.elapsed() >= LOOK {
            self.looked = Instant::now();
            if !self.open.as_ref().is_some_and(|open| is_at(open, path)) {
                self.open = None;
                self.torn = false;
            }
        }
        let open = match &mut self.open {
            Some(open) => open,
            closed => closed.insert(appending(path)?),
        };
        if self.torn {
            open.write_all(b"\n")?;
            self.torn = false;
        }
        write_lines(open, lines).map_err(|(why, written)| {
            self.torn = lines[..written].last().is_some_and(|last| *last != b'\n');
            why
        })
    }
}

/// The error says how many bytes were written before it.
fn write_lines(open: &mut File, lines: &[u8]) -> Result<(), (io::Error, usize)> {
    let mut written = 0;
    while written < lines.len() {
        match open.write(&lines[written..]) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), written)),
            Ok(more) => written += more,
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err((why, written)),
        }
    }
    Ok(())
}

/// A pipe that nobody reads is an error; to wait for its reader would be for ever.
fn appending(path: &Path) -> io::Result<File> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let opened = OpenOptions::new().append(true).create(true).custom_flags(at_once).open(path).map_err(|why| {
        let cure = match Errno::from_io_error(&why) {
            Some(Errno::NXIO) if is_socket(path) => ": it is a socket, name `-` for the error output instead",
            Some(Errno::NXIO) => ": it is a pipe that nobody reads, start its reader first",
            _ => "",
        };
        io::Error::new(why.kind(), format!("cannot write the access log {}: {why}{cure}", path.display()))
    })?;
    // Of lines that a pipe has no room for only a part would be written.
    fcntl_setfl(&opened, OFlags::APPEND)?;
    Ok(opened)
}

fn is_socket(path: &Path) -> bool {
    path.metadata().is_ok_and(|of| of.file_type().is_socket())
}

fn is_at(open: &File, path: &Path) -> bool {
    let identity = |of: io::Result<std::fs::Metadata>| of.ok().map(|of| (of.dev(), of.ino()));
    identity(open.metadata()).is_some_and(|own| identity(path.metadata()) == Some(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_moved_is_made_anew() -> io::Result<()> {
        let folder = std::env::temp_dir().join(format!("tidegate-access-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let (path, moved) = (folder.join("access.jsonl"), folder.join("access.jsonl.1"));
        let mut file = AccessFile::open(Some(&path))?;
        file.write(b"one\n")?;
        std::fs::rename(&path, &moved)?;
        file.write(b"two\n")?;
        file.looked -= LOOK;
        file.write(b"three\n")?;
        let read = [&moved, &path].map(|path| std::fs::read_to_string(path).unwrap_or_default());
        std::fs::remove_dir_all(&folder)?;
        assert_eq!(read, ["one\ntwo\n", "three\n"]);
        assert!(AccessFile::open(Some(&folder.join("none/access.jsonl"))).is_err());
        Ok(())
    }

    #[test]
    fn a_pipe_is_written_where_somebody_reads_it_and_refused_where_nobody_does() -> io::Result<()> {
        let pipe = std::env::temp_dir().join(format!("tidegate-access-pipe-{}", std::process::id()));
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o600))?;
        let unread = AccessFile::open(Some(&pipe)).err().map(|why| why.to_string());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read_to_string(pipe)
        });
        let mut file = loop {
            if let Ok(file) = AccessFile::open(Some(&pipe)) {
                break file;
            }
            std::thread::yield_now();
        };
        // More than a pipe has room for.
        file.write("one\n".repeat(100_000).as_bytes())?;
        drop(file);
        let read = reader.join().expect("it does not panic")?;
        std::fs::remove_file(&pipe)?;
        assert_eq!(read.len(), 400_000);
        assert!(unread.as_ref().is_some_and(|why| why.contains("that nobody reads, start its reader")), "{unread:?}");
        Ok(())
    }
}
