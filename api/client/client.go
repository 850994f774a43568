// Package client calls a running Norn: over its Unix socket on the same machine,
// or over TCP with a token.
//
// Nouns: a Client is the way to one Norn; a refusal is an *api.Error; NotRunning
// says that nobody answers.
//
// Times, spans and amounts are those of package api.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/norn-scheduler/norn/api"
)

// maxProblem bounds how much of a refusal is read, in bytes.
const maxProblem = 64 << 10

// Client calls one Norn. Its methods may be called from several goroutines, and
// end with their contexts. They return *api.Error where Norn refuses, NotRunning
// where nobody listens.
type Client struct {
	base  string // of every URL, without a slash at its end
	where string // for a reader: socket /run/norn.sock
	token string
	http  *http.Client
}

// NotRunning says that nobody answers where a Norn is looked for.
type NotRunning struct {
	Where string // such as socket /run/norn.sock
	Err   error
}

// Error says what to do about it.
func (e *NotRunning) Error() string {
	if strings.HasPrefix(e.Where, "socket ") {
		return fmt.Sprintf("no norn is running here (%s): start it with norn up", e.Where)
	}
	return fmt.Sprintf("no norn answers at %s: %v", e.Where, e.Err)
}

// Unwrap is the error of the connection.
func (e *NotRunning) Unwrap() error { return e.Err }

// New makes a client; nothing is opened yet. Addr is the path of a Unix socket,
// or a URL that begins with http:// or https://. Token may be empty for a socket.
// Ca is a PEM file of the authorities that are believed, or empty for those of
// the system.
func New(addr, token, ca string) (*Client, error) {
	if !strings.Contains(addr, "://") {
		return newSocket(addr, token)
	}
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, api.Refuse(api.Invalid, "%q is not an address of a norn: write the path of a socket, or a URL such as https://box:7077", addr)
	}
	transport := newTransport()
	if u.Scheme == "http" && !loopback(u.Hostname()) {
		return nil, api.Refuse(api.Invalid, "%s: a token is not sent over the network in the clear: write https://", addr)
	}
	if ca != "" {
		if transport.TLSClientConfig, err = trusting(ca); err != nil {
			return nil, err
		}
	}
	base := strings.TrimRight(u.String(), "/")
	return &Client{base: base, where: base, token: token, http: newHTTP(transport)}, nil
}

func newSocket(path, token string) (*Client, error) {
	if path == "" {
		return nil, api.Refuse(api.Invalid, "no address of a norn: write the path of its socket")
	}
	transport := newTransport()
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{base: "http://norn", where: "socket " + path, token: token, http: newHTTP(transport)}, nil
}

// call sends a request with a body in JSON, if any, and reads the answer into
// out, unless that is nil.
func (c *Client) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return api.Refuse(api.Invalid, "%v", err)
		}
		body = bytes.NewReader(text)
	}
	answer, err := c.open(ctx, method, path, body, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, io.LimitReader(answer, maxProblem)) // so that the connection can be used again
		return c.explain(ctx, err)
	}
	from := &reading{r: answer}
	err = jsonv2.UnmarshalRead(from, out)
	switch {
	case from.err != nil:
		return c.explain(ctx, from.err)
	case err != nil:
		return fmt.Errorf("%s does not answer as norn does: %w", c.where, err)
	}
	return nil
}

// reading is an answer as it comes, with what kept it from coming as a whole.
type reading struct {
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (r *reading) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// open sends a request and returns the body of its answer.
func (c *Client) open(ctx context.Context, method, path string, body io.Reader, header http.Header) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, api.Refuse(api.Invalid, "%v", err)
	}
	if header != nil {
		req.Header = header
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.explain(ctx, err)
	}
	if resp.StatusCode/100 == 2 {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	return nil, c.refusal(resp)
}

// explain turns an error of the connection into a sentence.
func (c *Client) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	var dial *net.OpError
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("no right to open the %s", c.where)
	}
	if errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return &NotRunning{Where: c.where, Err: cause(err)}
	}
	return fmt.Errorf("norn at %s stopped answering: %w", c.where, cause(err))
}

// cause leaves out the method and URL that package http puts before an error.
func cause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// refusal reads an answer that is not 2xx.
func (c *Client) refusal(resp *http.Response) error {
	var problem struct{ Title, Detail string }
	text := ""
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if b, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem)); err == nil && strings.HasSuffix(media, "json") {
		if json.Unmarshal(b, &problem) == nil {
			text = problem.Detail
		}
	}
	if text == "" {
		text = fmt.Sprintf("%s answers %s", c.where, resp.Status)
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		return &api.Error{Kind: api.NoToken, Text: text}
	case http.StatusForbidden:
		return &api.Error{Kind: api.Denied, Text: text}
	case http.StatusNotFound:
		return &api.Error{Kind: api.Unknown, Text: text}
	case http.StatusConflict:
		return &api.Error{Kind: api.Conflict, Text: text}
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		return &api.Error{Kind: api.Unavailable, Text: text}
	}
	if resp.StatusCode/100 == 4 {
		return &api.Error{Kind: api.Invalid, Text: text}
	}
	return errors.New(text)
}
