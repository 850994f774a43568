package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/norn-scheduler/norn/api"
	"github.com/norn-scheduler/norn/policy"
)

// Choice is a choice of a policy.
type Choice struct {
	Policy string `json:"policy" minLength:"1" maxLength:"1000" doc:"As in norn sim, such as tiresias(limits=3600)."`
}

// PolicyList is a list of policies.
type PolicyList struct {
	Policies []api.Policy `json:"policies" nullable:"false"`
}

// policyRoutes are those of policies: the one in force, and what others would have done.
func (s *Server) policyRoutes() {
	register(s, huma.Operation{
		OperationID: "policies", Method: http.MethodGet, Path: "/v1/policies", Tags: []string{tagDaemon},
		Summary: "List the policies that there are",
	}, func(context.Context, Caller, *nothing) (*struct{ Body PolicyList }, error) {
		out := PolicyList{Policies: []api.Policy{}}
		for _, e := range policy.Table() {
			out.Policies = append(out.Policies, api.Policy{Name: e.Name, Title: e.Title, Source: e.Source, Acts: e.Acts.Names()})
		}
		return &struct{ Body PolicyList }{out}, nil
	})
	register(s, huma.Operation{
		OperationID: "plan", Method: http.MethodPost, Path: "/v1/plan", Tags: []string{tagDaemon},
		Summary:     "Play the past again under other policies",
		Description: "For operators, since the answer tells of everybody's jobs. One at a time for each of them. It may take minutes, and ends when the client leaves.",
	}, func(ctx context.Context, c Caller, in *struct{ Body api.WhatIf }) (*struct{ Body api.Plan }, error) {
		if err := operator(c, "a what-if, which tells of everybody's jobs,"); err != nil {
			return nil, err
		}
		ctx, cancel := s.lasting(ctx)
		defer cancel()
		out, err := s.Backend.Plan(ctx, c, in.Body)
		return &struct{ Body api.Plan }{out}, err
	})
	register(s, huma.Operation{
		OperationID: "set-policy", Method: http.MethodPut, Path: "/v1/policy", Tags: []string{tagDaemon},
		Summary: "Change the policy", Description: "For operators.",
	}, func(ctx context.Context, c Caller, in *struct{ Body Choice }) (*nothing, error) {
		if err := operator(c, "changing the policy"); err != nil {
			return nil, err
		}
		return nil, s.Backend.SetPolicy(ctx, c, in.Body.Policy)
	})
}
