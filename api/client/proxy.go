package client

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httputil"
	"net/url"
)

// Proxy hands requests on to Norn as this client's own. What they say of who sends them
// stays behind: tokens, cookies, and the pages and addresses that they come from. Answers
// are passed on as they come. An error of the connection is answered with 503 or 502 and a
// problem.
func (c *Client) Proxy() http.Handler {
	base, err := url.Parse(c.base)
	if err != nil {
		base = &url.URL{} // New has parsed it
	}
	return &httputil.ReverseProxy{
		Transport:     c.http.Transport,
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(base)
			head := http.Header{}
			for _, name := range []string{"Accept", "Content-Type", "Last-Event-Id"} {
				if v := r.In.Header.Values(name); v != nil {
					head[name] = v
				}
			}
			if c.token != "" {
				head.Set("Authorization", "Bearer "+c.token)
			}
			r.Out.Header = head
		},
		ModifyResponse: func(r *http.Response) error {
			r.Header.Del("Set-Cookie")
			return nil
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			unreachable(w, c.explain(r.Context(), err))
		},
	}
}

// unreachable answers that Norn did not.
func unreachable(w http.ResponseWriter, err error) {
	status := http.StatusBadGateway
	var down *NotRunning
	if errors.As(err, &down) {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"title": http.StatusText(status), "status": status, "detail": err.Error()})
}
