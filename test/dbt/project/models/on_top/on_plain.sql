select count(*) as rows, sum(amount) as amount from {{ ref('plain') }}
