//! The route that the program's own requests named.
//!
//! A request on a buffer in device memory usually moves its bytes by peer-to-peer DMA or fails. The
//! kernel can still copy them silently through host memory: a file system that falls back to
//! buffered writes, one that bounces where pages must be stable (`IOMAP_DIO_BOUNCE` in
//! `fs/iomap/direct-io.c`), passthrough of a buffer that is not aligned (`bio_copy_user_iov` in
//! `block/blk-map.c`). So this source fits a route, and never shows one.

use peerlane_results::{BytesByRoute, RouteEvidence, RouteVerdict};

use super::says;

pub(super) fn look(asked: BytesByRoute, moved: BytesByRoute) -> RouteEvidence {
    let showed = format!(
        "{} of {} bytes requested between devices, {} of {} through host memory",
        moved.p2p.0, asked.p2p.0, moved.host.0, asked.host.0
    );
    let verdict = if moved != asked {
        RouteVerdict::Contradicted
    } else if moved == BytesByRoute::default() {
        RouteVerdict::NotKnown
    } else {
        RouteVerdict::Consistent
    };
    says(verdict, "the memory that each request named", showed)
}

#[cfg(test)]
mod tests {
    use peerlane_units::Bytes;

    use super::*;

    #[test]
    fn fallback_bytes_contradict_route() {
        let of = |p2p, host| BytesByRoute { p2p: Bytes(p2p), host: Bytes(host) };
        assert_eq!(look(of(9, 0), of(9, 0)).says, RouteVerdict::Consistent);
        assert_eq!(look(of(9, 0), of(8, 1)).says, RouteVerdict::Contradicted);
        assert_eq!(look(of(0, 0), of(0, 0)).says, RouteVerdict::NotKnown);
    }
}
