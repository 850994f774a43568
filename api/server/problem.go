package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/policy/param"
)

// Bounds on what is told of a bad request.
const (
	maxFaults = 5
	maxFault  = 300 // bytes
)

// statusOf is the HTTP status of a refusal.
func statusOf(k api.ErrorKind) int {
	switch k {
	case api.Invalid:
		return http.StatusBadRequest
	case api.Unknown:
		return http.StatusNotFound
	case api.Denied:
		return http.StatusForbidden
	case api.Conflict:
		return http.StatusConflict
	case api.Unavailable:
		return http.StatusServiceUnavailable
	case api.NoToken:
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

// problem answers with a problem of RFC 9457.
func (a *answer) problem(status int, detail string) {
	a.Header().Set("Content-Type", "application/problem+json")
	a.WriteHeader(status)
	json.NewEncoder(a).Encode(newProblem(status, detail)) // whoever does not take it has left
}

func newProblem(status int, detail string) *huma.ErrorModel {
	return &huma.ErrorModel{Title: http.StatusText(status), Status: status, Detail: detail}
}

// told is the status of an error of the backend, and what the client is told.
func (s *Server) told(q *request, err error) (status int, text string) {
	var refusal *api.Error
	if errors.As(err, &refusal) {
		return statusOf(refusal.Kind), refusal.Text
	}
	q.log.Error("a request failed", "error", err)
	return http.StatusInternalServerError, mishap(q.id)
}

// refuse turns an error of the backend into the answer.
func (s *Server) refuse(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || s.closing.Err() != nil && errors.Is(err, context.Canceled) {
		return newProblem(http.StatusServiceUnavailable, "norn is stopping, or the request was given up")
	}
	return newProblem(s.told(requestOf(ctx), err))
}

func (s *Server) tooLarge() string {
	return fmt.Sprintf("the body is larger than %d bytes", s.MaxBody)
}

// speak turns what huma finds wrong with a request into sentences.
func (s *Server) speak(ctx huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	if m.Status == http.StatusUnprocessableEntity {
		m.Status = http.StatusBadRequest
		m.Title = http.StatusText(m.Status)
	}
	switch {
	case m.Status == http.StatusBadRequest && len(m.Errors) == 0 && m.Detail == "request body is required":
		m.Detail = "the request needs a body in JSON"
	case len(m.Errors) > 0:
		m.Detail = s.faults(ctx.Operation(), m.Errors)
	}
	for _, e := range m.Errors {
		e.Value = nil // it may be large, and the client has it
		e.Location, e.Message = clip(e.Location, maxFault), clip(e.Message, maxFault)
	}
	m.Errors = m.Errors[:min(len(m.Errors), maxFaults)]
	return m, nil
}

// faults is a sentence on each fault, up to a few.
func (s *Server) faults(op *huma.Operation, errs []*huma.ErrorDetail) string {
	var out []string
	for _, e := range errs[:min(len(errs), maxFaults)] {
		out = append(out, clip(s.fault(op, e), maxFault))
	}
	if more := len(errs) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, "; ")
}

// fault says what is wrong at one place of a request.
func (s *Server) fault(op *huma.Operation, e *huma.ErrorDetail) string {
	part, field, _ := strings.Cut(e.Location, ".")
	at := ""
	if field != "" {
		at = field + ": "
	}
	switch e.Message {
	case validation.MsgUnexpectedProperty:
		parent, last := "", field
		if i := strings.LastIndex(field, "."); i >= 0 {
			parent, last = field[:i], field[i+1:]
		}
		return fmt.Sprintf("there is no field %s%s", clip(field, maxFault/2), param.Near(clip(last, 40), s.fieldsAt(op, parent)))
	case "unknown query parameter":
		return fmt.Sprintf("there is no parameter %s%s", clip(field, maxFault/2), param.Near(clip(field, 40), parameters(op)))
	case validation.MsgExpectedMatchExactlyOneSchema:
		if here := s.schemaAt(op, field); part == "body" && here != nil && here.Title != "" {
			return at + "expected " + here.Title
		}
	}
	if name, ok := strings.CutSuffix(e.Message, " to be present"); ok {
		return at + strings.TrimPrefix(name, "expected required property ") + " is missing"
	}
	if strings.HasPrefix(e.Message, "invalid date/time") {
		return at + "expected a moment such as 2026-03-01T12:00:00Z"
	}
	return at + e.Message
}

// parameters are the names that may be asked for in a query.
func parameters(op *huma.Operation) []string {
	var out []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			out = append(out, p.Name)
		}
	}
	return out
}

// fieldsAt are the names of the fields of a part of a body.
func (s *Server) fieldsAt(op *huma.Operation, path string) []string {
	here := s.schemaAt(op, path)
	if here == nil {
		return nil
	}
	var out []string
	for name := range here.Properties {
		out = append(out, name)
	}
	return out
}
