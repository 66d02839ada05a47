//! Answers of files whose pages are searched apart from each other, in any order.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::inputs::InputOrigin;
use crate::pipeline::{ImageAnswer, Looked, ScanError};
use crate::waiting::WaitingImage;
use crate::{Gray, Hit};

/// Pixels of a page, hits and their crops, or the reason why there are none.
pub(super) type PageAnswer = Result<(u64, Vec<Hit>, Vec<Gray>), ScanError>;

/// The answer of a file, until all its pages have one.
pub(super) struct OpenAnswer {
    image: String,
    origin: InputOrigin,
    pages: Mutex<OpenPages>,
}

#[derive(Default)]
struct OpenPages {
    all: Vec<(Option<u32>, Option<PageAnswer>)>,
    /// Set when no more pages come.
    end: Option<Result<(), ScanError>>,
}

impl OpenAnswer {
    pub(super) fn new(waiting: &WaitingImage) -> Self {
        Self { image: waiting.name(), origin: waiting.origin(), pages: Mutex::default() }
    }

    /// The name of the file.
    pub(super) fn image(&self) -> &str {
        &self.image
    }

    /// Adds a page by its number; its place among all.
    pub(super) fn add_page(&self, number: Option<u32>) -> usize {
        let mut pages = self.pages();
        pages.all.push((number, None));
        pages.all.len() - 1
    }

    /// Takes the answer of a page. Returns the answer of the file after its last open page.
    pub(super) fn settle(&self, page: usize, answer: PageAnswer) -> Option<ImageAnswer> {
        let mut pages = self.pages();
        if let Some((_, own)) = pages.all.get_mut(page) {
            *own = Some(answer);
        }
        self.whole(&mut pages)
    }

    /// Takes the end of the pages, or an error of the whole file. Returns the answer of the file unless a page is open.
    pub(super) fn end(&self, end: Result<(), ScanError>) -> Option<ImageAnswer> {
        let mut pages = self.pages();
        pages.end = Some(end);
        self.whole(&mut pages)
    }

    fn whole(&self, pages: &mut OpenPages) -> Option<ImageAnswer> {
        if pages.all.iter().any(|(_, answer)| answer.is_none()) {
            return None;
        }
        let looked = pages.end.take()?.and_then(|()| {
            let mut looked = Looked::default();
            for (number, answer) in pages.all.drain(..) {
                if let Some(answer) = answer {
                    looked.add(number, answer);
                }
            }
            looked.finish()
        });
        let (found, crops, left_out) = match looked {
            Ok(looked) => (Ok((looked.pixels, looked.hits)), looked.crops, looked.left_out),
            Err(error) => (Err(error), Vec::new(), Vec::new()),
        };
        let (image, origin) = (self.image.clone(), self.origin);
        Some(ImageAnswer { image, origin, found, left_out, crops })
    }

    fn pages(&self) -> MutexGuard<'_, OpenPages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::Pose;

    fn open() -> OpenAnswer {
        OpenAnswer::new(&WaitingImage::File(PathBuf::from("a.tiff"), InputOrigin::Named))
    }

    fn hit(x: usize) -> Hit {
        let (pose, page) = (Pose::default(), None);
        Hit { x, y: 0, width: 8, height: 8, pose, score: 1.0, page }
    }

    #[test]
    fn pages_settled_in_any_order_are_answered_in_theirs() {
        let answer = open();
        let pages = [1, 2, 3].map(|number| answer.add_page(Some(number)));
        assert!(answer.settle(pages[2], Ok((10, vec![hit(30)], Vec::new()))).is_none());
        assert!(answer.settle(pages[1], Err(ScanError::Failed)).is_none());
        assert!(answer.end(Ok(())).is_none(), "the first page is open");
        let whole = answer.settle(pages[0], Ok((5, vec![hit(10)], Vec::new()))).expect("all");
        let (pixels, hits) = whole.found.expect("two pages were searched");
        let places: Vec<_> = hits.iter().map(|hit| (hit.page, hit.x)).collect();
        assert_eq!((pixels, places), (15, vec![(Some(1), 10), (Some(3), 30)]));
        assert_eq!(whole.left_out.iter().map(|(page, _)| *page).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn broken_file_is_answered_once_when_its_pages_are() {
        let answer = open();
        let page = answer.add_page(None);
        assert!(answer.end(Err(ScanError::Encoded)).is_none());
        let whole = answer.settle(page, Ok((5, Vec::new(), Vec::new()))).expect("all");
        assert!(matches!(whole.found, Err(ScanError::Encoded)), "{:?}", whole.found);
    }
}
