package site

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"golang.org/x/net/html"

	"github.com/norn-scheduler/norn/internal/browser"
)

// tree is a page of the site, with its anchors and links.
type tree struct {
	anchors map[string]bool
	links   []string // of all that a page leads to or loads
	text    string
}

func read(t *testing.T, text []byte) *tree {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	out := &tree{anchors: map[string]bool{}}
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			out.text += n.Data
		}
		for _, a := range n.Attr {
			switch a.Key {
			case "id":
				if out.anchors[a.Val] {
					t.Errorf("anchor %q is there twice", a.Val)
				}
				out.anchors[a.Val] = true
			case "href", "src":
				out.links = append(out.links, a.Val)
			}
		}
	}
	return out
}

// TestLinks: each link leads to a page of the site and to an anchor there, to a file of the
// repository, or out of both; and each page is in a group of the list.
func TestLinks(t *testing.T) {
	files, err := Files("of a test")
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]*tree{}
	for name, text := range files {
		if strings.HasSuffix(name, ".html") {
			pages[name] = read(t, text)
		}
	}
	if len(pages) < 60 {
		t.Errorf("%d pages", len(pages))
	}
	for name, p := range pages {
		for _, link := range p.links {
			if file, ours := strings.CutPrefix(link, repository); ours {
				file, _, _ = strings.Cut(file, "#")
				if _, err := os.Stat(filepath.Join("..", "..", filepath.FromSlash(file))); err != nil {
					t.Errorf("%s: %s is not in the repository", name, file)
				}
				continue
			}
			if strings.Contains(link, "://") {
				continue
			}
			file, anchor, _ := strings.Cut(link, "#")
			at := name
			if file != "" {
				at = path.Join(path.Dir(name), file)
			}
			if files[at] == nil {
				t.Errorf("%s: %s leads nowhere", name, link)
			} else if to := pages[at]; anchor != "" && to != nil && !to.anchors[anchor] {
				t.Errorf("%s: %s has no anchor %q", name, at, anchor)
			}
		}
		if strings.Contains(p.text, "<!--") || strings.Contains(p.text, "raw HTML") {
			t.Errorf("%s shows what is for readers of the source", name)
		}
	}
	if strings.Contains(pages["index.html"].text, "More") {
		t.Error("a page is in no group of the list: see groups")
	}
}

// TestSite: in a browser, who searches finds the section that she means, and goes there. The
// site asks the network for nothing, is dark where the reader's screen is, and fits a phone.
func TestSite(t *testing.T) {
	dir := t.TempDir()
	if _, err := Write(dir, "of a test"); err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, filepath.Join(dir, "policies", "fifo.html"), browser.Window{Width: 1200, Height: 800})
	light := browser.Eval[string](p, `getComputedStyle(document.body).backgroundColor`)
	p.Media("", "dark")
	if dark := browser.Eval[string](p, `getComputedStyle(document.body).backgroundColor`); dark == light {
		t.Errorf("dark and light are both %s", dark)
	}
	if link := browser.Eval[string](p, `document.querySelector('nav a[aria-current]').textContent`); link != "fifo" {
		t.Errorf("the list says that this is %q", link)
	}
	if at := browser.Eval[string](p, `(() => { document.dispatchEvent(new KeyboardEvent('keydown', { key: '/' })); return document.activeElement.id; })()`); at != "search" {
		t.Errorf("after / the focus is on %q", at)
	}
	p.Do(chromedp.SendKeys(chromedp.CSS("#search"), "sacct"))
	const first = `new Promise(done => { const look = () => { const a = document.querySelector('#found a'); a ? done(a.textContent) : setTimeout(look, 20); }; look(); })`
	if title := browser.Eval[string](p, first); !strings.Contains(title, "Slurm") && !strings.Contains(title, "sacct") {
		t.Errorf("sacct is first found in %q", title)
	}
	if n := browser.Eval[int](p, `document.querySelectorAll('#found mark').length`); n == 0 {
		t.Error("no word is marked")
	}
	p.Do(chromedp.SendKeys(chromedp.CSS("#search"), " nosuchwordanywhere"))
	if none := browser.Eval[string](p, `new Promise(done => { const look = () => { const h = document.querySelector('#found h2').textContent; h.startsWith('Nothing') ? done(h) : setTimeout(look, 20); }; look(); })`); none == "" {
		t.Error("nothing is told of words that are nowhere")
	}
	p.Do(chromedp.KeyEvent("\x1b"))
	if shown := p.Text("#found"); shown != "" {
		t.Errorf("after Escape: %s", shown)
	}
	p.Do(chromedp.SendKeys(chromedp.CSS("#search"), "glossary"))
	browser.Eval[string](p, first)
	p.Click("#found a")
	p.Do(chromedp.WaitReady(chromedp.CSS("main")))
	p.Check()

	phone := browser.Open(t, filepath.Join(dir, "formats.html"), browser.Window{Width: 390, Height: 800, Phone: true})
	phone.NoOverflow(".wide, pre")
	phone.Check()
}
