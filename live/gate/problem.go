package gate

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"
)

// problem is an answer that says why there is none, as the OpenAI API writes it.
type problem struct {
	status  int
	kind    string // type of the error
	code    string
	message string
	retry   time.Duration // after which it may be tried again; 0: no word of that
}

// problemTime is for how long a client may take to read a problem.
const problemTime = 10 * time.Second

// The types of errors that clients of the API know.
const (
	badRequest  = "invalid_request_error"
	rateLimited = "rate_limit_error"
	serverError = "server_error"
)

func wrong(status int, format string, args ...any) *problem {
	return &problem{status: status, kind: badRequest, message: fmt.Sprintf(format, args...)}
}

// body is the error as clients read it.
func (p *problem) body() []byte {
	text, err := json.Marshal(map[string]any{"error": map[string]any{
		"message": p.message, "type": p.kind, "param": nil, "code": map[bool]any{true: p.code}[p.code != ""],
	}})
	if err != nil { // there is nothing in it that could not be written
		return []byte(`{"error":{"message":"unknown","type":"server_error","param":null,"code":null}}`)
	}
	return text
}

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retry.Seconds()))))
	}
	if p.status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(problemTime))
	w.WriteHeader(p.status)
	w.Write(append(p.body(), '\n'))
}
