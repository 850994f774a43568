// Package web is the page of a running Norn, and the gate through which a browser reaches
// it over a port of this machine.
//
// Nouns: the page is a few embedded files, the same for everybody; all that it shows of jobs
// it asks of the API, with the rights of who looks at it. A Gate stands before a port that
// every user of the machine can reach, and lets in one browser alone. A link is the address
// that a user opens, with a token in it that is good once. A session is a browser that was
// let in; it has a cookie and a key, and needs both.
package web

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/norn-scheduler/norn/internal/palette"
)

//go:embed assets
var assets embed.FS

// policy is the content policy of the page: its own files alone, no frames, no forms, and
// no text that becomes a program.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// folder is where the files of the page lie, as browsers ask for them.
const folder = "/web/"

// Serves tells whether a path is one of the page, which holds nothing of anybody and may be
// seen by everybody.
func Serves(path string) bool { return path == "/" || strings.HasPrefix(path, folder) }

// media are the types of files by the ends of their names.
var media = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// Page serves the files of the page at / and below /web/. All else is 404.
func Page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, folder)
		if r.URL.Path == "/" {
			name = "index.html"
		}
		text, err := fs.ReadFile(assets, "assets/"+name)
		if name == "palette.css" {
			text, err = []byte(palette.CSS()), nil
		}
		kind, known := media[path.Ext(name)]
		if err != nil || !known || !Serves(r.URL.Path) {
			http.Error(w, "the page has no such file", http.StatusNotFound)
			return
		}
		protect(w.Header())
		w.Header().Set("Content-Type", kind)
		w.Write(text) // who does not take it has left
	})
}

// protect has a browser keep an answer to the page that it belongs to.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
	h.Set("Cache-Control", "no-store")
}
