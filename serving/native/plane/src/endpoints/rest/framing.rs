//! What HTTP/1.1 asks of a request's head beyond what the HTTP layer looks at.

use http::header::{HOST, TRANSFER_ENCODING};
use http::{Request, Version};
use tidegate_codec::status::{Code, Status};

/// Why a request cannot be answered: it names no host, or more than one, or its body comes in a coding that nobody knows, or in
/// several, be they the same.
pub fn check<B>(request: &Request<B>) -> Result<(), Status> {
    let headers = request.headers();
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || hosts == 0 && request.version() == Version::HTTP_11 {
        return Err(Status::invalid(format!("the request has {hosts} Host headers: HTTP/1.1 asks for one")));
    }
    for (before, coding) in headers.get_all(TRANSFER_ENCODING).iter().enumerate() {
        if before > 0 {
            let what = "the request has several Transfer-Encoding headers: send the body whole, or in chunks alone";
            return Err(Status::new(Code::Unimplemented, what));
        }
        if !coding.as_bytes().eq_ignore_ascii_case(b"chunked") {
            let coding = String::from_utf8_lossy(coding.as_bytes());
            let what = format!("transfer coding '{coding}' is not supported: send the body whole, or in chunks alone");
            return Err(Status::new(Code::Unimplemented, what));
        }
    }
    Ok(())
}

/// Whether the body comes in chunks.
pub fn is_chunked<B>(request: &Request<B>) -> bool {
    request.headers().contains_key(TRANSFER_ENCODING)
}
