//! What the page calls: memory for a request, and the answer to it.
//!
//! The page asks for room, writes the request there, calls [`ask`], and reads the answer from [`place`] on. It touches the
//! memory only between calls. After a panic, which ends the call by a trap, the message lies where answers lie.

use std::sync::Mutex;

use crate::Session;

static EXCHANGE: Mutex<Vec<u8>> = Mutex::new(Vec::new());
static SESSION: Mutex<Option<Session>> = Mutex::new(None);

/// Makes room for a request and returns its address.
#[unsafe(no_mangle)]
extern "C" fn room(length: usize) -> usize {
    std::panic::set_hook(Box::new(|panic| put(panic.to_string().into_bytes())));
    put(vec![0; length]);
    place()
}

/// Answers the request and returns the length of the answer.
#[unsafe(no_mangle)]
extern "C" fn ask() -> usize {
    let request = EXCHANGE.lock().map(|mut held| std::mem::take(&mut *held)).unwrap_or_default();
    let request = String::from_utf8_lossy(&request);
    if let Ok(mut session) = SESSION.lock() {
        let answer = session.get_or_insert_default().answer(&request);
        put(answer.into_bytes());
    }
    length()
}

/// The address of the answer.
#[unsafe(no_mangle)]
extern "C" fn place() -> usize {
    EXCHANGE.lock().map_or(0, |held| held.as_ptr() as usize)
}

/// The length of the answer.
#[unsafe(no_mangle)]
extern "C" fn length() -> usize {
    EXCHANGE.lock().map_or(0, |held| held.len())
}

fn put(bytes: Vec<u8>) {
    if let Ok(mut held) = EXCHANGE.lock() {
        *held = bytes;
    }
}
