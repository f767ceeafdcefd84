"""Claims: a quantity, how it is compared, and over what; classes of tests by topic.

module       quantity                            compared               over
compared     end, level by a cost, cost to it    a word of RELATIONS    two runs, steps
highest      end, mean along, at least lead      better                 all rivals, graphs
lead         level by a cost                     lead there over here   two costs or steps
slope        cost to a target, error             power, or others'      sizes, targets
whole_run    end                                 power or base, law     horizons
one_run      end, fit of a law, or all records   printed number, law    one run
                                                or a theorem's bound
tried_value  level at a value, chosen value      regret, printed, order values tried
study_value  what a study computes               as claimed             runs, attacks
region       that of another test                as there               cells of a map

Each class is a subclass of `fedatlas.schema.claims.ClaimTest`. Its `kinds` are the names that
files use for it, with the keys that each has or sets. Plans import these modules, so they load
neither xarray nor scipy.
"""
