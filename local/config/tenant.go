package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/norn-scheduler/norn/cluster/unit"
	"github.com/norn-scheduler/norn/internal/yamltext"
	"github.com/norn-scheduler/norn/tenant"
	"github.com/norn-scheduler/norn/trace/clusterspec"
)

// Tenant is who shares the machine.
type Tenant struct {
	clusterspec.Tenant
	Users []string // who may use it; none: everybody
}

// readTenant takes one entry of tenants.
func (c *Config) readTenant(n ast.Node) error {
	t := Tenant{}
	err := yamltext.Mapping(n, "a tenant", yamltext.Keys{
		"name":      name(&t.Name),
		"parent":    name(&t.Parent),
		"guarantee": yamltext.Value(&t.Guarantee, parseShare),
		"limit":     yamltext.Value(&t.Limit, parseShare),
		"weight":    yamltext.Value(&t.Weight, parseWeight),
		"cells":     yamltext.Value(&t.Cells, tenant.ParseCells),
		"users":     names(&t.Users, "users"),
	})
	switch {
	case err != nil:
		return err
	case t.Name == "":
		return yamltext.Fault(n, "a tenant needs a name: write name")
	case slices.ContainsFunc(c.Tenants, func(o Tenant) bool { return o.Name == t.Name }):
		return yamltext.Fault(n, "tenant %q is given twice", t.Name)
	case t.Limit.GPUs > 0 && t.Guarantee.GPUs > t.Limit.GPUs || t.Limit.Percent > 0 && t.Guarantee.Percent > t.Limit.Percent:
		return yamltext.Fault(n, "tenant %q: its limit of %v is below its guarantee of %v", t.Name, t.Limit, t.Guarantee)
	}
	c.Tenants = append(c.Tenants, t)
	return nil
}

func parseShare(s string) (clusterspec.Share, error) {
	share, err := clusterspec.ParseShare(s)
	if err == nil && share.GPUs > clusterspec.MaxDevices*unit.One {
		err = fmt.Errorf("%q GPUs are more than any machine has", s)
	}
	return share, err
}

func parseWeight(s string) (float64, error) {
	w, err := strconv.ParseFloat(s, 64)
	if err != nil || !(w > 0 && w <= 1e9) {
		return 0, fmt.Errorf("%q: write a weight above 0, such as 2 or 0.5", s)
	}
	return w, nil
}

// checkTenants makes sure that every tenant hangs below the root.
func (r *reader) checkTenants() error {
	all := map[string]*Tenant{}
	for i := range r.c.Tenants {
		all[r.c.Tenants[i].Name] = &r.c.Tenants[i]
	}
	if len(all) > 10_000 {
		return r.wrong("tenants", "there are %d: at most 10,000 are allowed", len(all))
	}
	for i := range r.c.Tenants {
		t, depth := &r.c.Tenants[i], 0
		for t.Parent != "" {
			above, ok := all[t.Parent]
			if !ok {
				return r.wrong("tenants", "the parent of %q, %q, is not a tenant: add it, or leave parent out", t.Name, t.Parent)
			}
			if t, depth = above, depth+1; depth > 64 {
				return r.wrong("tenants", "%q is below itself, or more than 64 levels deep", r.c.Tenants[i].Name)
			}
		}
	}
	return nil
}

// Tree makes the tenants on a machine of so many GPUs. It fails where more is
// guaranteed than there is, or a limit is below a guarantee.
func (c *Config) Tree(gpus unit.Milli) (*tenant.Tree, error) {
	tree := tenant.NewTree(c.HalfLife)
	promised := map[string]unit.Milli{}
	var add func(t *Tenant) (tenant.ID, error)
	add = func(t *Tenant) (tenant.ID, error) {
		if id, done := tree.Lookup(t.Name); done {
			return id, nil
		}
		parent := tenant.Root
		for i := range c.Tenants {
			if above := &c.Tenants[i]; above.Name == t.Parent {
				var err error
				if parent, err = add(above); err != nil {
					return 0, err
				}
			}
		}
		promised[t.Parent] += t.Guarantee.Of(gpus)
		id, err := tree.Add(t.Name, parent, t.Guarantee.Of(gpus), t.Limit.Of(gpus), t.Weight)
		if err == nil {
			tree.SetCells(id, t.Cells)
		}
		return id, err
	}
	for i := range c.Tenants {
		if _, err := add(&c.Tenants[i]); err != nil {
			return nil, err
		}
	}
	if promised[""] > gpus {
		return nil, fmt.Errorf("tenants are guaranteed %v GPUs together, the machine has %v", promised[""], gpus)
	}
	for i := range c.Tenants {
		t := &c.Tenants[i]
		if own := t.Guarantee.Of(gpus); own > 0 && promised[t.Name] > own {
			return nil, fmt.Errorf("tenants below %q are guaranteed %v GPUs together, it has %v itself", t.Name, promised[t.Name], own)
		}
	}
	return tree, nil
}

// TenantOf is the tenant that a job of a user counts for, given the one that she
// asked for, if any. The error says which she may use.
func (c *Config) TenantOf(user, asked string) (string, error) {
	if len(c.Tenants) == 0 {
		if asked == "" {
			asked = user
		}
		return asked, nil
	}
	var open []string
	for _, t := range c.Tenants {
		named := slices.Contains(t.Users, user)
		switch {
		case t.Name == asked && (named || len(t.Users) == 0):
			return asked, nil
		case named && asked == "":
			return t.Name, nil
		case named || len(t.Users) == 0:
			open = append(open, t.Name)
		}
	}
	switch {
	case len(open) == 0:
		return "", fmt.Errorf("user %s may use no tenant: an operator adds users to tenants in the configuration", user)
	case asked == "":
		return open[0], nil
	}
	return "", fmt.Errorf("user %s may not use tenant %s; open to her are: %s", user, asked, strings.Join(open, ", "))
}

// Line writes the tenant as an entry of the file.
func (t Tenant) Line() string {
	parts := []string{"name: " + yamltext.Quote(t.Name)}
	add := func(given bool, key, value string) {
		if given {
			parts = append(parts, key+": "+value)
		}
	}
	none := clusterspec.Share{}
	add(t.Parent != "", "parent", yamltext.Quote(t.Parent))
	add(t.Guarantee != none, "guarantee", t.Guarantee.String())
	add(t.Limit != none, "limit", t.Limit.String())
	add(t.Weight != 0, "weight", strconv.FormatFloat(t.Weight, 'g', -1, 64))
	add(t.Cells != "", "cells", yamltext.Quote(string(t.Cells)))
	add(len(t.Users) > 0, "users", flow(t.Users))
	return "- {" + strings.Join(parts, ", ") + "}"
}
