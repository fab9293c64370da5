//! A request on its way to nodes, once or twice.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri, request};
use http_body_util::Full;
use hyper::body::Incoming;

use crate::forward::Missed;
use crate::headers::drop_hop_by_hop;
use crate::links::http1::RestLink;
use crate::links::tls::Protocol;
use crate::node::Node;
use crate::rest::answer::{From, NodeAnswer};

/// A request with its whole body.
pub struct Outgoing {
    method: Method,
    path: PathAndQuery,
    headers: HeaderMap,
    body: Bytes,
}

impl Outgoing {
    /// With this head and body.
    pub fn new(head: request::Parts, body: Bytes) -> Outgoing {
        let mut headers = head.headers;
        drop_hop_by_hop(&mut headers);
        // The body goes on as it is once it was decompressed, and is here already.
        for name in [CONTENT_ENCODING, CONTENT_LENGTH, EXPECT] {
            headers.remove(name);
        }
        let path = head.uri.into_parts().path_and_query.unwrap_or(PathAndQuery::from_static("/"));
        Outgoing { method: head.method, path, headers, body }
    }

    /// Sends it to a node, until the head of the answer has come.
    pub async fn send(&self, lane: usize, node: Arc<Node>) -> Result<NodeAnswer, Missed<NodeAnswer>> {
        let outstanding = node.begin();
        let failed = |why: String| {
            node.pause(Protocol::Rest).fail(Instant::now());
            Missed::Unreachable(why)
        };
        let (response, link) = self.ask(lane, &node).await.map_err(failed)?;
        let status = response.status();
        if !(status.is_success() || status.is_client_error() || status.is_server_error()) {
            // No engine sends a client elsewhere, or changes the protocol.
            return Err(failed(format!("{} answers {status}", node.addresses.rest)));
        }
        node.pause(Protocol::Rest).end();
        let refused = matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::NOT_FOUND);
        let answer = NodeAnswer { response, from: From { lane, link: Some(link), outstanding } };
        if refused { Err(Missed::Refused(answer)) } else { Ok(answer) }
    }

    /// Through a connection that was kept, or through a new one where none of those took the request.
    async fn ask(&self, lane: usize, node: &Node) -> Result<(Response<Incoming>, RestLink), String> {
        let mut request = self.request();
        while let Some(mut link) = node.rest.kept(lane).await {
            match link.try_send_request(request).await {
                Ok(response) => return Ok((response, link)),
                Err(mut failed) => match failed.take_message() {
                    Some(back) => request = back,
                    None => return Err(format!("{}: {}", node.addresses.rest, failed.into_error())),
                },
            }
        }
        let mut link = node.rest.open().await?;
        let answered = link.send_request(request).await;
        let response = answered.map_err(|why| format!("{}: {why}", node.addresses.rest))?;
        Ok((response, link))
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = Uri::from(self.path.clone());
        *request.headers_mut() = self.headers.clone();
        request
    }
}
